// Recomputes every vector beside it in Node, with its built-in crypto and zlib only:
//
//     node tests/vectors/verify_vectors.mjs
//
// prints one line for each file and exits 0 when all agree, 1 otherwise. It stands for a verifier in another
// language: JavaScript sorts text by UTF-16 units and prints numbers as RFC 8785 wants them, so neither is written
// out here; integers beyond 2^53 are BigInt, and objects are Map, because a JavaScript object reorders its members.

import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  scryptSync,
} from "node:crypto";
import { readFileSync } from "node:fs";
import { inflateSync } from "node:zlib";

const NESTING = 64;
const DIGITS = 1000;
const PART_BYTES = 4 * 1024 * 1024;
const HEADER_BYTES = 16 * 1024;

class Refused extends Error {}

// ---- JSON: strict reading and canonical writing ----------------------------------------------------------------

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  document() {
    const value = this.value(0);
    this.space();
    if (this.at !== this.text.length) throw new Refused("json");
    return value;
  }

  space() {
    while (" \t\r\n".includes(this.text[this.at] ?? "x")) this.at += 1;
  }

  take(word) {
    if (!this.text.startsWith(word, this.at)) return false;
    this.at += word.length;
    return true;
  }

  value(depth) {
    this.space();
    if (this.take("{")) return this.members(depth + 1);
    if (this.take("[")) return this.items(depth + 1);
    if (this.take('"')) return this.string();
    if (this.take("true")) return true;
    if (this.take("false")) return false;
    if (this.take("null")) return null;
    for (const word of ["NaN", "Infinity", "-Infinity"]) if (this.take(word)) throw new Refused("number");
    return this.number();
  }

  members(depth) {
    if (depth > NESTING) throw new Refused("depth");
    const found = new Map();
    this.space();
    if (this.take("}")) return found;
    for (;;) {
      this.space();
      if (!this.take('"')) throw new Refused("json");
      const name = this.string();
      this.space();
      if (!this.take(":")) throw new Refused("json");
      if (found.has(name)) throw new Refused("duplicate");
      found.set(name, this.value(depth));
      this.space();
      if (this.take("}")) return found;
      if (!this.take(",")) throw new Refused("json");
    }
  }

  items(depth) {
    if (depth > NESTING) throw new Refused("depth");
    const found = [];
    this.space();
    if (this.take("]")) return found;
    for (;;) {
      found.push(this.value(depth));
      this.space();
      if (this.take("]")) return found;
      if (!this.take(",")) throw new Refused("json");
    }
  }

  string() {
    let out = "";
    for (;;) {
      const unit = this.text[this.at];
      if (unit === undefined) throw new Refused("json");
      this.at += 1;
      if (unit === '"') return out;
      if (unit < " ") throw new Refused("json");
      out += unit === "\\" ? this.escape() : unit;
    }
  }

  escape() {
    const letter = this.text[this.at] ?? "";
    this.at += 1;
    if (letter === "u") {
      const digits = this.text.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new Refused("json");
      this.at += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    const plain = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
    if (!Object.hasOwn(plain, letter)) throw new Refused("json");
    return plain[letter];
  }

  number() {
    const pattern = /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) throw new Refused("json");
    this.at = pattern.lastIndex;
    if (found[2] === undefined && found[3] === undefined) {
      if (found[1].length > DIGITS) throw new Refused("digits");
      return BigInt(found[0]);
    }
    const value = Number(found[0]);
    if (!Number.isFinite(value)) throw new Refused("number");
    return value;
  }
}

function readJson(bytes) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refused("utf8");
  }
  return new Reader(text).document();
}

function numberText(value) {
  if (!Number.isFinite(value)) throw new Refused("number");
  return String(value === 0 ? 0 : value);
}

function canonicalText(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return numberText(value);
  // JSON.stringify writes lone surrogates as \udxxx and everything else as RFC 8785 asks.
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(",")}]`;
  const names = [...value.keys()].sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalText(value.get(name))}`).join(",")}}`;
}

/** A value of the vector files as the reader would give it: objects are Map, integers BigInt. */
function lifted(value) {
  if (Array.isArray(value)) return value.map(lifted);
  if (typeof value === "number" && Number.isInteger(value)) return BigInt(value);
  if (value === null || typeof value !== "object") return value;
  return new Map(Object.entries(value).map(([name, item]) => [name, lifted(item)]));
}

const canonical = (value) => Buffer.from(canonicalText(lifted(value)), "utf-8");

// ---- keys and records ------------------------------------------------------------------------------------------

const hex = (text) => Buffer.from(text, "hex");
const sha256 = (...texts) => texts.reduce((hash, text) => hash.update(text), createHash("sha256")).digest("hex");
const mac = (key, ...texts) => texts.reduce((hash, text) => hash.update(text), createHmac("sha256", key)).digest();
const derived = (dataKey, name) => mac(dataKey, `counterfoil/${name}/v1`, Buffer.from([1]));
const context = (stream, purpose, ids) => canonical([`counterfoil/${purpose}/v1`, stream, ...ids]);

function unpacked(packed) {
  if (packed[0] === 0) return packed.subarray(1);
  if (packed[0] !== 1) throw new Refused("packing");
  const squeezed = packed.subarray(1);
  let found;
  try {
    found = inflateSync(squeezed, { maxOutputLength: PART_BYTES, info: true });
  } catch {
    throw new Refused("packing");
  }
  if (found.engine.bytesWritten !== squeezed.length) throw new Refused("packing");
  return found.buffer;
}

function decrypted(key, nonce, sealed, aad) {
  const cipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: 16 });
  cipher.setAAD(aad);
  cipher.setAuthTag(sealed.subarray(-16));
  try {
    return Buffer.concat([cipher.update(sealed.subarray(0, -16)), cipher.final()]);
  } catch {
    throw new Refused("tag");
  }
}

/** Content, packed bytes and salt of a record; every check of FORMAT 6 in its order. */
function opened(one) {
  const record = hex(one.record);
  let salt;
  let packed;
  if (one.mode === "clear") {
    if (record[0] !== 0 || record.length < 34) throw new Refused("form");
    salt = record.subarray(1, 33);
    packed = record.subarray(33);
  } else {
    if (record[0] !== 1 || record.length < 1 + 12 + 1 + 16) throw new Refused("form");
    const key = hex(one.data_key);
    const aad = context(one.stream_id, one.purpose, one.ids);
    salt = mac(derived(key, "mac"), aad);
    packed = decrypted(derived(key, "enc"), record.subarray(1, 13), record.subarray(13), aad);
  }
  const content = unpacked(packed);
  if (mac(salt, Buffer.from([0]), content).toString("hex") !== one.commitment) throw new Refused("commitment");
  if (one.mode === "sealed" && !mac(salt, packed).subarray(0, 12).equals(record.subarray(1, 13))) {
    throw new Refused("nonce");
  }
  return { content, packed, salt };
}

// ---- artifacts -------------------------------------------------------------------------------------------------

const CHUNK = 16 * 1024;

/** Key, nonce by chunk number, and commitment of one object: HKDF-Expand with SHA-512. */
function chunkKeys(file, salt) {
  const key = derived(hex(file.data_key), "artifact");
  const expand = (...texts) => texts.reduce((hash, text) => hash.update(text), createHmac("sha512", key)).digest();
  const info = Buffer.concat([
    Buffer.from("c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0"),
    salt,
    context(file.stream_id, "artifact", []),
  ]);
  const first = expand(info, Buffer.from([1]));
  const found = Buffer.concat([first, expand(first, info, Buffer.from([2]))]);
  const base = BigInt(`0x${found.toString("hex", 32, 44)}`);
  const nonce = (number) => hex((base ^ BigInt(number)).toString(16).padStart(24, "0"));
  return { key: found.subarray(0, 32), nonce, commitment: found.subarray(44, 76) };
}

function chunked(file, salt, plain) {
  const { key, nonce, commitment } = chunkKeys(file, salt);
  const out = [salt, commitment];
  for (let at = 0; at <= plain.length; at += CHUNK) {
    const cipher = createCipheriv("aes-256-gcm", key, nonce(at / CHUNK), { authTagLength: 16 });
    out.push(cipher.update(plain.subarray(at, at + CHUNK)), cipher.final(), cipher.getAuthTag());
  }
  return Buffer.concat(out);
}

/** The plain bytes of an object; every check of FORMAT 10 in its order. */
function unchunked(file, stored, address) {
  if (stored.length < 56) throw new Refused("length");
  const { key, nonce, commitment } = chunkKeys(file, stored.subarray(0, 24));
  if (!stored.subarray(24, 56).equals(commitment)) throw new Refused("commitment");
  const plain = [];
  for (let at = 56, number = 0; ; at += CHUNK + 16, number += 1) {
    const piece = stored.subarray(at, at + CHUNK + 16);
    if (piece.length < 16) throw new Refused("cut");
    try {
      plain.push(decrypted(key, nonce(number), piece, Buffer.alloc(0)));
    } catch (refusal) {
      throw refusal instanceof Refused ? new Refused("chunk") : refusal;
    }
    if (piece.length < CHUNK + 16) break;
  }
  const whole = Buffer.concat(plain);
  if (mac(derived(hex(file.data_key), "address"), whole).toString("hex") !== address) throw new Refused("address");
  return whole;
}

// ---- forms -----------------------------------------------------------------------------------------------------

const ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
const PREFIXES = "ldg str evt run stp cal eff apr rev rep adm sch trn dk kek del ers hld".split(" ");
const LABEL = "[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,127}";
const CLASSES = ["public", "internal", "confidential", "personal", "secret"];
const PERSONS = ["user", "human"];

const fits = (pattern, text) => typeof text === "string" && new RegExp(`^(?:${pattern})$`).test(text);
const isId = (text, ...prefixes) => fits(`(?:${(prefixes.length ? prefixes : PREFIXES).join("|")})_${ULID}`, text);
const isLabel = (text) => fits(LABEL, text);
const isDigest = (text) => fits("[0-9a-f]{64}", text);
const isEventType = (text) => fits("[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*){1,4}", text) && text.length <= 96;

function isTime(text) {
  const found = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.\d{3}Z$/.exec(text);
  if (found === null) return false;
  const [year, month, day, hour, minute, second] = found.slice(1).map(Number);
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return year > 0 && day > 0 && day <= (days[month - 1] ?? 0) && hour < 24 && minute < 60 && second < 60;
}

const FORMS = {
  label: isLabel,
  name: (text) => fits(`${LABEL}|~[0-9a-f]{16}`, text),
  event_type: isEventType,
  decimal: (text) => fits("-?(0|[1-9][0-9]*)(\\.[0-9]+)?", text) && text.length <= 40,
  time: isTime,
  digest: isDigest,
  tag: (text) => fits("[0-9a-f]{32}", text),
  id: (text) => isId(text),
};

const isInteger = (value, low, high = 2n ** 53n - 1n) => typeof value === "bigint" && value >= low && value <= high;

/** Whether a Map has these members and, beside them, only those. */
function hasMembers(value, needed, allowed = []) {
  if (!(value instanceof Map)) return false;
  const all = [...needed, ...allowed];
  return needed.every((name) => value.has(name)) && [...value.keys()].every((name) => all.includes(name));
}

// ---- headers and genesis ---------------------------------------------------------------------------------------

function readRecord(text) {
  if (!/^[\x20-\x5b\x5d-\x7e]*$/.test(text) || text.includes("\n")) throw new Refused("canonical");
  let value;
  try {
    value = readJson(Buffer.from(text, "latin1"));
  } catch {
    throw new Refused("canonical");
  }
  if (!(value instanceof Map) || canonicalText(value) !== text) throw new Refused("canonical");
  return value;
}

function hasFloat(value) {
  if (value instanceof Map) return [...value.values()].some(hasFloat);
  return Array.isArray(value) ? value.some(hasFloat) : typeof value === "number";
}

const isContinues = (value) =>
  Array.isArray(value) && value.length === 3 && isId(value[0], "str") && isInteger(value[1], 0n) && isDigest(value[2]);

const GENESIS = {
  ctx: () => true,
  ledger: (value) => isId(value, "ldg"),
  tenant: isLabel,
  stream_id: (value) => isId(value, "str"),
  kind: (value) => value === "conversation" || (isLabel(value) && /^system\/./.test(value)),
  key: (value) => isId(value, "dk"),
  content: (value) => ["sealed", "clear"].includes(value),
  suite: () => true,
};

function readGenesis(text) {
  const members = readRecord(text);
  if (hasFloat(members)) throw new Refused("canonical");
  if (members.get("ctx") !== "counterfoil/genesis/v1" || members.get("suite") !== "CF1") throw new Refused("format");
  if (!hasMembers(members, Object.keys(GENESIS), ["continues"])) throw new Refused("member");
  for (const [name, check] of Object.entries(GENESIS)) if (!check(members.get(name))) throw new Refused("member");
  if (members.has("continues") && !isContinues(members.get("continues"))) throw new Refused("member");
  return members;
}

function isActor(value) {
  if (!hasMembers(value, ["type", "id"], ["identity_version"])) return false;
  const kind = value.get("type");
  if (![...PERSONS, "agent", "worker", "service", "system"].includes(kind)) return false;
  const named = PERSONS.includes(kind) ? isId(value.get("id"), "dk") : isLabel(value.get("id"));
  return named && (!value.has("identity_version") || isLabel(value.get("identity_version")));
}

const isPart = (value) =>
  hasMembers(value, ["commitment", "sha256"], ["key", "class"]) &&
  isDigest(value.get("commitment")) &&
  isDigest(value.get("sha256")) &&
  (!value.has("key") || isId(value.get("key"), "dk")) &&
  (!value.has("class") || CLASSES.includes(value.get("class")));

const isReference = (value) =>
  hasMembers(value, ["kind", "class", "sha256"], value?.get?.("class") === "public" ? [] : ["address", "key"]) &&
  isLabel(value.get("kind")) &&
  CLASSES.includes(value.get("class")) &&
  isDigest(value.get("sha256")) &&
  (!value.has("address") || isDigest(value.get("address"))) &&
  (!value.has("key") || isId(value.get("key"), "dk"));

const isNumber = (value) => isInteger(value, -(2n ** 53n) + 1n);
const isText = (value) => typeof value === "string";

function isData(value) {
  const list = (item) => Array.isArray(item) && item.length <= 64 && (item.every(isText) || item.every(isNumber));
  const fine = (item) => isText(item) || typeof item === "boolean" || isNumber(item) || list(item);
  return value instanceof Map && [...value.values()].every(fine);
}

const listOf = (check, most) => (value) =>
  Array.isArray(value) && value.length >= 1 && value.length <= most && value.every(check);

const HEADER = {
  actor: isActor,
  artifact_refs: listOf(isReference, 64),
  attempt: (value) => isInteger(value, 1n),
  causation_event_id: (value) => isId(value, "evt"),
  causation_stream_id: (value) => isId(value, "str"),
  content: listOf(isPart, 8),
  correlation_id: (value) => isId(value),
  ctx: () => true,
  data: isData,
  event_id: (value) => isId(value, "evt"),
  event_schema_version: (value) => isInteger(value, 1n),
  event_type: isEventType,
  ignorable: (value) => value === true,
  occurred_at: isTime,
  previous_event_hash: isDigest,
  recorded_at: isTime,
  run_id: (value) => isId(value, "run"),
  step_id: (value) => isId(value, "stp"),
  stream_id: (value) => isId(value, "str"),
  stream_sequence: (value) => isInteger(value, 1n, 2n ** 28n),
  trace_id: FORMS.tag,
};
const OPTIONAL = [
  "artifact_refs",
  "attempt",
  "causation_event_id",
  "causation_stream_id",
  "content",
  "correlation_id",
  "ignorable",
  "run_id",
  "step_id",
  "trace_id",
];
const REQUIRED = Object.keys(HEADER).filter((name) => !OPTIONAL.includes(name));

function readHeader(text) {
  if (Buffer.byteLength(text, "utf-8") > HEADER_BYTES) throw new Refused("size");
  const value = readRecord(text);
  const ctx = value.get("ctx");
  if (isText(ctx) && ctx !== "counterfoil/event/v1") throw new Refused("format");
  if (!hasMembers(value, REQUIRED, OPTIONAL)) throw new Refused("member");
  if (value.has("causation_stream_id") && !value.has("causation_event_id")) throw new Refused("member");
  for (const [name, item] of value) if (!HEADER[name](item)) throw new Refused("member");
  if (value.get("causation_stream_id") === value.get("stream_id")) throw new Refused("member");
  return value;
}

// ---- the files -------------------------------------------------------------------------------------------------

class Check {
  constructor() {
    this.count = 0;
    this.wrong = [];
  }

  same(what, found, wanted) {
    this.count += 1;
    if (found !== wanted) this.wrong.push(`${what}: found ${String(found).slice(0, 100)}, wanted ${String(wanted).slice(0, 100)}`);
  }

  refused(what, reason, call) {
    this.count += 1;
    try {
      call();
    } catch (refusal) {
      if (!(refusal instanceof Refused)) throw refusal;
      if (refusal.message !== reason) this.wrong.push(`${what}: refused for ${refusal.message}, not for ${reason}`);
      return;
    }
    this.wrong.push(`${what}: accepted, though ${reason} is wrong`);
  }
}

function checkCanonical(check, file) {
  for (const one of file.accept) {
    check.same(one.name, canonicalText(readJson(Buffer.from(one.text, "utf-8"))), one.canonical);
    check.same(`${one.name}, again`, canonicalText(readJson(Buffer.from(one.canonical, "utf-8"))), one.canonical);
  }
  for (const one of file.refuse) {
    const bytes = one.hex === undefined ? Buffer.from(one.text, "utf-8") : hex(one.hex);
    check.refused(one.name, one.reason, () => readJson(bytes));
  }
}

function checkNumbers(check, file) {
  for (const one of file.numbers) {
    const value = hex(one.ieee754).readDoubleBE();
    if (one.text === null) check.refused(one.ieee754, "number", () => numberText(value));
    else check.same(one.ieee754, numberText(value), one.text);
  }
}

function ulid(bytes) {
  let value = BigInt(`0x${bytes.toString("hex")}`);
  let out = "";
  for (let i = 0; i < 26; i += 1) {
    out = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[Number(value & 31n)] + out;
    value >>= 5n;
  }
  return out;
}

function checkForms(check, file) {
  for (const [name, cases] of Object.entries(file.forms)) {
    for (const text of cases.accept) check.same(`${name} ${text}`, FORMS[name](text), true);
    for (const text of cases.refuse) check.same(`${name} ${text}`, FORMS[name](text), false);
  }
  for (const one of file.times) check.same(one.outside, isTime(one.time), true);
  for (const one of file.ulids) {
    check.same(one.text, ulid(hex(BigInt(one.number).toString(16).padStart(32, "0"))), one.text);
  }
}

function checkKeys(check, file) {
  const key = hex(file.data_key);
  const stream = file.stream_id;
  for (const name of ["enc", "mac", "address", "artifact"]) {
    check.same(`K_${name}`, derived(key, name).toString("hex"), file[`K_${name}`]);
  }
  const row = mac(key, canonical(["counterfoil/key/v1", file.key_id, stream])).subarray(0, 16);
  check.same("check", row.toString("hex"), file.check);
  for (const one of file.keyed) {
    const aad = context(stream, one.purpose, one.ids);
    const salt = mac(derived(key, "mac"), aad);
    const value = mac(salt, hex(one.data)).toString("hex");
    check.same(one.purpose, aad.toString("utf-8"), one.context);
    check.same(one.purpose, `${salt.toString("hex")} ${value}`, `${one.salt} ${one.keyed}`);
    check.same(one.purpose, value.slice(0, 32), one.tag);
  }
  for (const one of file.derived_ids) {
    check.same(one.id, `${one.prefix}_${ulid(hex(one.keyed).subarray(0, 16))}`, one.id);
  }
  for (const one of file.hidden_names) {
    const value = mac(mac(derived(key, "mac"), context(stream, "name", [])), one.name).toString("hex");
    check.same(one.name, `~${value.slice(0, 16)}`, one.hidden);
  }
  for (const one of file.tree) {
    const address = mac(derived(key, "address"), one.body);
    check.same("address", address.toString("hex"), one.address);
    check.same("node", sha256("counterfoil/context/v1\0", hex(one.parent), address), one.node);
  }
  for (const one of file.index) {
    const text = canonical(["counterfoil/index/v1", one.purpose, one.tenant, one.text]);
    check.same(one.text, mac(hex(file.index_key), text).toString("hex"), one.value);
  }
}

function checkGenesis(check, file) {
  for (const one of file.accept) {
    check.same(one.name, canonicalText(readGenesis(one.text)), canonicalText(lifted(one.members)));
    check.same(one.name, sha256("\0", one.text), one.hash);
  }
  for (const one of file.refuse) check.refused(one.name, one.reason, () => readGenesis(one.text));
}

function checkRecords(check, file) {
  for (const one of file.accept) {
    const { content, packed, salt } = opened(one);
    check.same(one.name, content.toString("utf-8"), one.content);
    check.same(one.name, `${packed.toString("hex")} ${salt.toString("hex")}`, `${one.packed} ${one.salt}`);
    check.same(one.name, sha256(hex(one.record)), one.sha256);
    check.same(one.name, context(one.stream_id, one.purpose, one.ids).toString("utf-8"), one.context);
    check.same(one.name, canonicalText(readJson(content)), content.toString("utf-8"));
  }
  for (const one of file.refuse) check.refused(one.name, one.check, () => opened(one));
  for (const one of file.openings) {
    const salt = hex(one.salt);
    const proves = salt.length === 32 && mac(salt, "\0", one.content).toString("hex") === one.commitment;
    check.same(one.name, proves, one.proves);
  }
}

function checkEvents(check, file) {
  const genesis = readGenesis(file.genesis);
  const stream = genesis.get("stream_id");
  let previous = sha256("\0", file.genesis);
  file.accept.forEach((one, index) => {
    const header = readHeader(one.header);
    check.same(one.name, header.get("stream_id"), stream);
    check.same(one.name, header.get("stream_sequence"), BigInt(index + 1));
    check.same(one.name, header.get("previous_event_hash"), previous);
    previous = sha256("\0", one.header);
    check.same(one.name, previous, one.hash);
    const parts = header.get("content") ?? [];
    check.same(one.name, parts.length, one.records.length);
    parts.forEach((part, number) => {
      const record = {
        mode: genesis.get("content"),
        record: one.records[number],
        commitment: part.get("commitment"),
        data_key: file.keys[part.get("key") ?? genesis.get("key")],
        stream_id: stream,
        purpose: "content",
        ids: [header.get("event_id"), number],
      };
      check.same(one.name, opened(record).content.toString("utf-8"), one.contents[number]);
      check.same(one.name, sha256(hex(one.records[number])), part.get("sha256"));
    });
  });
  const { effect_id: effect, value, ...binding } = file.binding;
  const salt = mac(derived(hex(file.keys[genesis.get("key")]), "mac"), context(stream, "binding", [effect]));
  check.same("binding", mac(salt, canonical(binding)).toString("hex"), value);
  for (const one of file.refuse) check.refused(one.name, one.reason, () => readHeader(one.header));
}

function checkArtifacts(check, file) {
  const key = hex(file.data_key);
  check.same("K_artifact", derived(key, "artifact").toString("hex"), file.K_artifact);
  check.same("context", context(file.stream_id, "artifact", []).toString("utf-8"), file.context);
  const objects = new Map();
  for (const one of file.accept) {
    const made = () => Buffer.from(Array.from({ length: one.size }, (_, i) => (i * one.step + 7) % 256));
    const plain = one.plain === undefined ? made() : hex(one.plain);
    const address = mac(derived(key, "address"), plain);
    const salt = hex(one.salt);
    if (one.salt_from_address) {
      const own = mac(mac(derived(key, "mac"), context(file.stream_id, "artifact-salt", [])), address);
      check.same(one.name, one.salt, own.toString("hex", 0, 24));
    }
    const stored = chunked(file, salt, plain);
    objects.set(one.name, stored);
    check.same(one.name, address.toString("hex"), one.address);
    check.same(one.name, `${plain.length} ${stored.length}`, `${one.size} ${one.object_bytes}`);
    check.same(one.name, stored.toString("hex", 24, 56), one.commitment);
    check.same(one.name, sha256(stored), one.sha256);
    if (one.object !== undefined) check.same(one.name, stored.toString("hex"), one.object);
    check.same(one.name, unchunked(file, stored, one.address).equals(plain), true);
  }
  for (const one of file.refuse) {
    const whole = objects.get(one.of);
    const stored =
      whole === undefined
        ? hex(one.object)
        : Buffer.concat(one.edit.keep.map(([low, high]) => whole.subarray(low, high)));
    check.refused(one.name, one.check, () => unchunked(file, stored, one.address));
  }
  for (const [size, wanted] of file.size_classes) {
    check.same(`${size} bytes`, Math.max(0, Math.ceil(Math.log2(size))), wanted);
  }
}

class Requests {
  constructor(dataKey) {
    this.key = derived(dataKey, "address");
    this.bodies = new Map();
    this.nodes = new Map();
  }

  digest(text) {
    if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) throw new Refused("form");
    return text;
  }

  add(branch) {
    const names = Object.keys(branch).sort().join(" ");
    const count = branch.bodies?.length ?? 0;
    if (!["bodies", "bodies parent"].includes(names) || count < 1 || count > 64) throw new Refused("form");
    let parent = branch.parent === undefined ? undefined : this.digest(branch.parent);
    if (parent !== undefined && parent !== "0".repeat(64) && !this.nodes.has(parent)) throw new Refused("parent");
    for (const entry of branch.bodies) {
      const address = this.entry(entry);
      if (!this.bodies.has(address)) throw new Refused("body");
      if (parent === undefined) continue;
      const node = sha256("counterfoil/context/v1\0", hex(parent), hex(address));
      this.nodes.set(node, [parent, address]);
      parent = node;
    }
  }

  entry(entry) {
    if (typeof entry === "string") return this.bring(mac(this.key, entry).toString("hex"), entry);
    if (Object.keys(entry).join() !== "body") throw new Refused("form");
    return this.digest(entry.body);
  }

  bring(address, body) {
    if (mac(this.key, body).toString("hex") !== address) throw new Refused("body");
    this.bodies.set(address, body);
    return address;
  }

  path(tip) {
    const found = [];
    for (let node = tip; node !== "0".repeat(64); ) {
      if (!this.nodes.has(node)) throw new Refused("tip");
      const [parent, address] = this.nodes.get(node);
      found.unshift(this.bodies.get(address));
      node = parent;
    }
    return found;
  }

  segment(segment) {
    const names = Object.keys(segment).sort().join(" ");
    if (names === "raw") return segment.raw;
    if (names === "body") return this.bodies.get(this.digest(segment.body));
    if (names === "join path") return this.path(this.digest(segment.path)).join(segment.join);
    throw new Refused("form");
  }

  whole(one) {
    const found = one.segments.map((segment) => this.segment(segment)).join("");
    if (mac(this.key, found).toString("hex") !== one.request) throw new Refused("request");
    return found;
  }
}

function checkRequests(check, file) {
  const stream = new Requests(hex(file.data_key));
  for (const one of file.accept) {
    for (const branch of one.branches) stream.add(branch);
    check.same(one.name, stream.whole(one), one.sent);
    check.same(one.name, JSON.stringify(stream.path(one.tip)), JSON.stringify(one.messages));
    check.same(one.name, one.messages.length, one.bodies);
  }
  for (const one of file.refuse) {
    check.refused(one.name, one.check, () => (one.branch ? stream.add(one.branch) : stream.whole(one)));
  }
}

/** As Requests, with the two forms of a body that is not written out. */
class Bodies extends Requests {
  constructor(file) {
    super(hex(file.data_key));
    this.responses = new Map(file.responses.map((one) => [one.event_id, one.text]));
    this.objects = new Map(file.objects.map((one) => [one.sha256, one]));
  }

  entry(entry) {
    const names = typeof entry === "string" ? "" : Object.keys(entry).sort().join(" ");
    if (names === "$spilled") return this.moved(entry.$spilled);
    if (names === "body in said") return this.said(entry);
    return super.entry(entry);
  }

  moved(inner) {
    const one = this.objects.get(inner.sha256);
    if (inner.form !== "text" || one === undefined) throw new Refused("form");
    if (inner.bytes !== Buffer.byteLength(one.plain)) throw new Refused("body");
    return this.bring(one.address, one.plain);
  }

  said(entry) {
    const sides = entry.in;
    const texts = Array.isArray(sides) && sides.length === 2 && sides.every((side) => typeof side === "string");
    if (!texts || !fits("evt_[0-9A-HJKMNP-TV-Z]{26}", entry.said)) throw new Refused("form");
    const address = this.digest(entry.body);
    const text = this.responses.get(entry.said);
    if (text === undefined) throw new Refused("body");
    return this.bring(address, sides[0] + canonicalText(text) + sides[1]);
  }
}

function checkBodies(check, file) {
  const stream = new Bodies(file);
  for (const one of file.accept) {
    const before = stream.nodes.size;
    stream.add(one.branch);
    check.same(one.name, [...stream.nodes.keys()].slice(before).join(), one.nodes.join());
    const found = one.addresses.map((address) => stream.bodies.get(address));
    check.same(one.name, JSON.stringify(found), JSON.stringify(one.bodies));
    const addresses = one.bodies.map((body) => mac(stream.key, body).toString("hex"));
    check.same(one.name, addresses.join(), one.addresses.join());
  }
  for (const one of file.refuse) check.refused(one.name, one.check, () => stream.add(one.branch));
}

function checkTurn(check, file) {
  let previous = "0".repeat(64);
  for (const one of file.events) {
    const fields = [one.turn_id, one.agent_id, one.seq, one.type, one.payload_hash ?? "", one.summary.toWellFormed()];
    check.same(one.type, one.previous, previous);
    previous = sha256(Buffer.from([previous, ...fields, one.created_at_ms].join("|"), "utf-8"));
    check.same(one.type, previous, one.hash);
  }
}

const PACKAGE = { passphrase: ["n", "r", "p", "salt"], recipient: ["recipient", "enc", "sealed"], epoch: ["kek", "wrapped"] };
const KEYS = Buffer.from("counterfoil/keys/v1");
const X25519_PRIVATE = hex("302e020100300506032b656e04220420");
const X25519_PUBLIC = hex("302a300506032b656e032100");

function expanded(secret, info, length) {
  let [made, block] = [Buffer.alloc(0), Buffer.alloc(0)];
  for (let number = 1; made.length < length; number += 1) {
    block = mac(secret, block, info, Buffer.from([number]));
    made = Buffer.concat([made, block]);
  }
  return made.subarray(0, length);
}

/** HPKE, base mode, without aad (RFC 9180). */
function received(scalar, enc, sealed) {
  const privateKey = createPrivateKey({ key: Buffer.concat([X25519_PRIVATE, scalar]), format: "der", type: "pkcs8" });
  const publicKey = createPublicKey({ key: Buffer.concat([X25519_PUBLIC, enc]), format: "der", type: "spki" });
  const own = createPublicKey(privateKey).export({ format: "der", type: "spki" }).subarray(-32);
  const kem = Buffer.from("KEM\x00\x20", "latin1");
  const suite = Buffer.from("HPKE\x00\x20\x00\x01\x00\x02", "latin1");
  const none = Buffer.alloc(0);
  const extract = (of, salt, label, data) =>
    mac(salt.length ? salt : Buffer.alloc(32), Buffer.concat([Buffer.from("HPKE-v1"), of, Buffer.from(label), data]));
  const expand = (of, key, label, info, length) =>
    expanded(key, Buffer.concat([Buffer.from([0, length]), Buffer.from("HPKE-v1"), of, Buffer.from(label), info]), length);
  const raw = extract(kem, none, "eae_prk", diffieHellman({ privateKey, publicKey }));
  const shared = expand(kem, raw, "shared_secret", Buffer.concat([enc, own]), 32);
  const told = Buffer.concat([
    Buffer.from([0]),
    extract(suite, none, "psk_id_hash", none),
    extract(suite, none, "info_hash", KEYS),
  ]);
  const secret = extract(suite, shared, "secret", none);
  return decrypted(expand(suite, secret, "key", told, 32), expand(suite, secret, "base_nonce", told, 12), sealed, none);
}

/** The keys of a package under its secret; every check of FORMAT 15 in its order. */
function readPackage(one) {
  if (!one.package.endsWith("\n")) throw new Refused("canonical");
  const value = readRecord(one.package.slice(0, -1));
  const wanted = ["ctx", "protection", "commitment", "box", ...PACKAGE[value.get("protection")]];
  if (!hasMembers(value, wanted)) throw new Refused("members");
  const costs = ["n", "r", "p"].map((name) => value.get(name));
  if (value.get("protection") === "passphrase" && String(costs) !== "131072,8,1") throw new Refused("cost");
  const [box, commitment] = [Buffer.from(value.get("box"), "base64"), value.get("commitment")];
  value.delete("box");
  value.delete("commitment");
  const aad = Buffer.from(canonicalText(value));
  const made = expanded(hex(one.secret), Buffer.concat([KEYS, aad]), 64);
  if (made.subarray(32).toString("hex") !== commitment) throw new Refused("commitment");
  return decrypted(made.subarray(0, 32), Buffer.alloc(12), box, aad).toString();
}

/** The head of each stream of an archive, by id; every check of FORMAT 15 in its order. */
function readArchive(text) {
  const lines = text.split(/(?<=\n)/);
  const values = lines.map((line) => {
    const value = readJson(Buffer.from(line.trimEnd()));
    if (!line.endsWith("\n") || `${canonicalText(value)}\n` !== line) throw new Refused("canonical");
    return value;
  });
  if (values[0].get("ctx") !== "counterfoil/archive/v1") throw new Refused("format");
  const expect = (place, kind) => {
    if (values[place]?.get("record") !== kind) throw new Refused("kind");
    return values[place];
  };
  const heads = {};
  let place = 1;
  for (let number = 0n; number < values[0].get("streams"); number += 1n) {
    const begin = expect(place, "stream");
    const genesis = readGenesis(begin.get("genesis"));
    let tip = sha256(Buffer.from([0]), begin.get("genesis"));
    const events = Number(begin.get("events"));
    for (let at = 1; at <= events; at += 1) tip = readEvent(expect(place + at, "event"), genesis, at, tip);
    heads[genesis.get("stream_id")] = tip;
    place += events + 1;
  }
  const end = expect(place, "end");
  const before = sha256(lines.slice(0, place).join(""));
  if (place !== lines.length - 1 || Number(end.get("lines")) !== place || end.get("sha256") !== before) {
    throw new Refused("end");
  }
  return heads;
}

function readEvent(line, genesis, number, tip) {
  const header = readHeader(line.get("header"));
  const at = header.get("stream_id") === genesis.get("stream_id") && Number(header.get("stream_sequence")) === number;
  if (!at || header.get("previous_event_hash") !== tip) throw new Refused("link");
  const [parts, records] = [header.get("content") ?? [], line.get("content")];
  if (parts.length !== records.length) throw new Refused("record");
  for (const [part, record] of records.entries()) {
    if (record === null) continue;
    if (sha256(Buffer.from(record, "base64")) !== parts[part].get("sha256")) throw new Refused("record");
  }
  return sha256(Buffer.from([0]), line.get("header"));
}

function checkArchive(check, file) {
  check.same("heads", JSON.stringify(readArchive(file.archive)), JSON.stringify(file.heads));
  check.same("sha256", sha256(file.archive), file.sha256);
  for (const one of file.packages) {
    check.same(one.name, readPackage(one), JSON.stringify(one.keys));
    const value = JSON.parse(one.package);
    if (one.passphrase !== undefined) {
      const cost = { N: 131072, r: 8, p: 1, maxmem: 2 ** 28 };
      const found = scryptSync(one.passphrase.normalize("NFC"), hex(value.salt), 32, cost);
      check.same(one.name, found.toString("hex"), one.secret);
    } else if (one.private_key !== undefined) {
      const found = received(hex(one.private_key), hex(value.enc), hex(value.sealed));
      check.same(one.name, found.toString("hex"), one.secret);
    }
  }
  for (const one of file.refuse) check.refused(one.name, one.check, () => readArchive(one.archive));
  for (const one of file.refuse_packages) check.refused(one.name, one.check, () => readPackage(one));
}

const FILES = {
  archive: checkArchive,
  canonical: checkCanonical,
  numbers: checkNumbers,
  forms: checkForms,
  keys: checkKeys,
  genesis: checkGenesis,
  records: checkRecords,
  artifacts: checkArtifacts,
  requests: checkRequests,
  bodies: checkBodies,
  events: checkEvents,
  turn: checkTurn,
};

let failed = 0;
for (const [name, run] of Object.entries(FILES)) {
  const check = new Check();
  try {
    run(check, JSON.parse(readFileSync(new URL(`${name}.json`, import.meta.url), "utf-8")));
  } catch (refusal) {
    if (!(refusal instanceof Refused)) throw refusal;
    check.same("a vector that should be accepted", `refused for ${refusal.message}`, "accepted");
  }
  failed += check.wrong.length;
  console.log(`${name}: ${check.count - check.wrong.length} of ${check.count} agree`);
  for (const line of check.wrong) console.log(`  ${line}`);
}
process.exit(failed === 0 ? 0 : 1);
