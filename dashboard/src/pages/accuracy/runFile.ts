/** Run records as people have them: one JSON object a line, a list, or `{"runs": [...]}`. */
export class NotRuns extends Error {
  constructor(
    readonly reason: "empty" | "line",
    readonly line = 0,
  ) {
    super(reason);
  }
}

export type RunRecord = Record<string, unknown>;

/** Throws `NotRuns` where the text is neither. What is inside a record is the server's to judge. */
export function recordsOf(text: string): RunRecord[] {
  const whole = parsed(text);
  const listed = Array.isArray(whole) ? whole : isObject(whole) && Array.isArray(whole.runs) ? whole.runs : isObject(whole) ? [whole] : null;
  const records = listed ?? lines(text);
  if (!records.length) throw new NotRuns("empty");
  return records as RunRecord[];
}

function lines(text: string): unknown[] {
  return text.split("\n").flatMap((line, index) => {
    if (!line.trim()) return [];
    const found = parsed(line);
    if (!isObject(found)) throw new NotRuns("line", index + 1);
    return [found];
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is RunRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const MAX_RUNS = 500;
const MAX_BYTES = 3_500_000; // of a request, below the server's 4 MiB

/** The records in requests that the server takes. */
export function batches(records: readonly RunRecord[]): RunRecord[][] {
  const found: RunRecord[][] = [];
  let size = Infinity;
  for (const record of records) {
    const length = new TextEncoder().encode(JSON.stringify(record)).length + 1;
    const last = found.at(-1);
    if (!last || last.length >= MAX_RUNS || size + length > MAX_BYTES) {
      found.push([record]);
      size = length;
    } else {
      last.push(record);
      size += length;
    }
  }
  return found;
}

/** The stack among `stacks` that a framework's name says, such as `mindspeed-llm` for "MindSpeed-LLM (then ModelLink)". */
export function stackOf(framework: string, stacks: readonly string[]): string | undefined {
  const plain = (text: string) => text.toLowerCase().replace(/[^a-z]/g, "");
  return stacks.find((stack) => plain(framework).includes(plain(stack)));
}
