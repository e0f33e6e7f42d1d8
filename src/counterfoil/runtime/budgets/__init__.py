"""Budgets: how many tokens, how much money, how many calls and how much time a run may use (DESIGN 6)."""
