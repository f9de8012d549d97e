// Numbers as people read them. Whoever needs all digits finds them in the data-value of a cell.
export const dash = "–";
const thin = "\u202f"; // between number and unit, so that they never part

/** A measured number: so many digits, zeros at the end included, so that columns line up. */
export function significant(value: number, digits = 3): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 10 ** (digits - 1)) return Math.round(value).toLocaleString("en-GB").replaceAll(",", thin);
  if (size < 1e-4) return value.toExponential(digits - 1);
  return value.toPrecision(digits);
}

/** A number that someone chose, such as a size or a tick: nothing after its last digit. */
export const plain = (value: number, digits = 4): string =>
  Math.abs(value) >= 10 ** digits ? significant(value, digits) : String(Number(value.toPrecision(digits)));

function scaled(value: number, steps: [number, string][], write = significant): string {
  const step = steps.find(([least]) => Math.abs(value) >= least) ?? steps[steps.length - 1]!;
  return write(value / step[0]) + thin + step[1];
}

/** Decimal, as everywhere in PASSING: 1 MB is 250,000 float32. */
export const bytes = (value: number): string => Number.isNaN(value) ? dash :
  scaled(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]], plain);
const bits: [number, string][] = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];
/** What a link is set to. */
export const rate = (perSecond: number): string => (perSecond === 0 ? "not shaped" : scaled(perSecond, bits, plain));
/** What was measured. */
export const speed = (perSecond: number): string => scaled(perSecond, bits);
const parts: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
export const seconds = (value: number): string => scaled(value, parts);
export const secondsTick = (value: number): string => scaled(value, parts, plain);
export const percent = (ratio: number): string => `${significant(100 * ratio)}${thin}%`;
export const times = (ratio: number): string => `${ratio < 10 ? ratio.toFixed(2) : significant(ratio)}${thin}×`;
export const tensors = (value: number): string => `${significant(value)}${thin}${value === 1 ? "tensor" : "tensors"}`;
export const plural = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`;

export function date(text: string): string {
  const when = new Date(text);
  if (Number.isNaN(when.getTime())) return text;
  return when.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" }) + " UTC";
}
