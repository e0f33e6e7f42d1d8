"""A passphrase or key given to a command: from a file or asked for, never an argument that others could list."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from counterfoil.errors import InputError

SECRET_BYTES_MAX: Final = 4096
KEY_HEX: Final = 64


def passphrase_given(path: str | None, *, twice: bool) -> str:
    """The passphrase in a file (without its line end), or asked for at the terminal. Raises InputError."""
    if path is not None:
        text = _read(path)
    elif sys.stdin.isatty():
        text = click.prompt("passphrase", hide_input=True, err=True, confirmation_prompt=twice)
    else:
        raise InputError(
            "a passphrase is needed, and there is no terminal to ask at",
            hint="put it into a file that only you can read: --passphrase-file FILE",
        )
    if not text:
        raise InputError("the passphrase is empty", hint="give one of several words")
    return text


def key_given(option: str, given: str) -> bytes:
    """32 bytes in hex, given as they are or in a file. Raises InputError."""
    text = given if _is_key(given) else _read(given)
    if not _is_key(text):
        raise InputError(f"{option} is a key of 64 hex, or a file with one", argument=option)
    return bytes.fromhex(text)


def _is_key(text: str) -> bool:
    return len(text) == KEY_HEX and all(letter in "0123456789abcdef" for letter in text)


def _read(path: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(SECRET_BYTES_MAX + 1)
        if len(data) > SECRET_BYTES_MAX:
            raise InputError(f"{path} is too large to hold a passphrase or a key", path=path)
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text", path=path) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", path=path) from error
