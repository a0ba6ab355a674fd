/**
 * Judges a value by a JSON Schema of the small subset that `wire.ts` holds. Pure.
 *
 * Known keywords: type, properties, required, additionalProperties (false), enum, pattern, minLength, maxLength, minimum,
 * maximum, items, minItems, maxItems. A schema with any other keyword is refused loudly, so that the generator cannot
 * outgrow this file unnoticed.
 */

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
}

const KNOWN = new Set([
  "type",
  "properties",
  "required",
  "additionalProperties",
  "enum",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "items",
  "minItems",
  "maxItems",
]);

const patterns = new Map<string, RegExp>();
/** Schemas whose keywords have been looked at. */
const known = new WeakSet<object>();

/** "" if `value` fits, else one sentence that names the place and the rule, never the value. */
export function misfit(schema: object, value: unknown, at = "value"): string {
  const s = schema as Schema;
  if (!known.has(s)) {
    for (const key of Object.keys(s)) if (!KNOWN.has(key)) throw new Error(`unknown schema keyword ${key}`);
    known.add(s);
  }
  if (s.enum !== undefined) return s.enum.includes(value) ? "" : `${at} is not one of the allowed values`;
  switch (s.type) {
    case undefined:
      return "";
    case "object":
      return misfitObject(s, value, at);
    case "array":
      return misfitArray(s, value, at);
    case "string":
      return misfitString(s, value, at);
    case "integer":
    case "number":
      return misfitNumber(s, value, at);
    case "boolean":
      return typeof value === "boolean" ? "" : `${at} is no boolean`;
    default:
      throw new Error(`unknown schema type ${s.type}`);
  }
}

function misfitObject(s: Schema, value: unknown, at: string): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `${at} is no object`;
  const properties = s.properties ?? {};
  const given = value as Readonly<Record<string, unknown>>;
  for (const name of s.required ?? []) if (!Object.hasOwn(given, name)) return `${at} lacks ${name}`;
  for (const [name, inner] of Object.entries(given)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (known === undefined) {
      if (s.additionalProperties === false) return `${at} has an unknown field`;
      continue;
    }
    const optional = !(s.required ?? []).includes(name);
    if (inner === null && optional) continue; // absent
    const problem = misfit(known, inner, name);
    if (problem !== "") return problem;
  }
  return "";
}

function misfitArray(s: Schema, value: unknown, at: string): string {
  if (!Array.isArray(value)) return `${at} is no list`;
  if (value.length < (s.minItems ?? 0) || value.length > (s.maxItems ?? Infinity)) return `${at} has a wrong number of entries`;
  if (s.items === undefined) return "";
  for (const item of value) {
    const problem = misfit(s.items, item, `an entry of ${at}`);
    if (problem !== "") return problem;
  }
  return "";
}

function misfitString(s: Schema, value: unknown, at: string): string {
  if (typeof value !== "string") return `${at} is no text`;
  // JSON Schema counts code points, `length` counts UTF-16 units: only where it matters are they counted.
  const length = value.length > (s.maxLength ?? Infinity) ? [...value].length : value.length;
  if (length < (s.minLength ?? 0) || length > (s.maxLength ?? Infinity)) return `${at} is too short or too long`;
  if (s.pattern === undefined) return "";
  let pattern = patterns.get(s.pattern);
  if (pattern === undefined) {
    pattern = new RegExp(s.pattern, "u");
    patterns.set(s.pattern, pattern);
  }
  return pattern.test(value) ? "" : `${at} has a wrong form`;
}

function misfitNumber(s: Schema, value: unknown, at: string): string {
  if (typeof value !== "number" || !Number.isFinite(value)) return `${at} is no number`;
  if (s.type === "integer" && !Number.isInteger(value)) return `${at} is no whole number`;
  return value < (s.minimum ?? -Infinity) || value > (s.maximum ?? Infinity) ? `${at} is out of range` : "";
}
