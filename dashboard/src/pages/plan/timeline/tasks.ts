/** A simulated step as columns, arranged in lanes: one row of the picture each, sorted by time, without overlaps. */
import type { Schemas } from "../../../api/client";

export type TimelineDocument = Schemas["PlanTimeline"];

export interface Lane {
  rank: number;
  /** Number of the stream; what the device computes is in the lane of the first, whatever its stream. */
  stream: number;
  /** Tasks of one stream that run at once are in different lanes: 0 is the first. */
  place: number;
  /** Numbers of the tasks, by start. */
  tasks: Int32Array;
  start: Float64Array;
  end: Float64Array;
  kind: Uint8Array;
}

export interface Timeline {
  document: TimelineDocument;
  numTasks: number;
  stepS: number;
  /** By rank, then stream, then place. */
  lanes: Lane[];
  /** Lane and position in it of each task. */
  laneOf: Int32Array;
  positionOf: Int32Array;
}

export interface Task {
  index: number;
  rank: number;
  stream: string;
  kind: string;
  /** Null where a task belongs to no chunk or micro batch, such as the optimizer. */
  chunk: number | null;
  microBatch: number | null;
  startS: number;
  endS: number;
}

/** Streams of the device's own work: they exclude each other. */
const COMPUTE: ReadonlySet<string> = new Set(["compute", "optimizer"]);
const COMMUNICATION: ReadonlySet<string> = new Set(["communication", "expert_communication", "p2p", "data_parallel"]);
const SLACK = 1e-9; // of the step: ends that rounding put behind the next start

export function arranged(document: TimelineDocument): Timeline {
  const { rank, kind, start_s, end_s } = document.tasks;
  const numTasks = rank.length;
  const first = Math.max(document.streams.indexOf("compute"), 0);
  const stream = document.tasks.stream.map((number) => (COMPUTE.has(document.streams[number] ?? "") ? first : number));
  const order = Array.from({ length: numTasks }, (_, task) => task);
  const at = (column: readonly number[], task: number) => column[task] ?? 0;
  order.sort((a, b) => at(rank, a) - at(rank, b) || at(stream, a) - at(stream, b) || at(start_s, a) - at(start_s, b) || a - b);

  const slack = document.step_time_s * SLACK;
  const open = new Map<string, { rank: number; stream: number; place: number; members: number[]; end: number }>();
  for (const task of order) {
    for (let place = 0; ; place++) {
      const key = `${at(rank, task)}.${at(stream, task)}.${place}`;
      const lane = open.get(key);
      if (lane && at(start_s, task) < lane.end - slack) continue;
      if (lane) lane.members.push(task);
      else open.set(key, { rank: at(rank, task), stream: at(stream, task), place, members: [task], end: 0 });
      const used = lane ?? open.get(key);
      if (used) used.end = Math.max(at(end_s, task), at(start_s, task));
      break;
    }
  }

  const lanes = [...open.values()]
    .sort((a, b) => a.rank - b.rank || a.stream - b.stream || a.place - b.place)
    .map(({ rank: ofRank, stream: ofStream, place, members }) => ({
      rank: ofRank,
      stream: ofStream,
      place,
      tasks: Int32Array.from(members),
      start: Float64Array.from(members, (task) => at(start_s, task)),
      end: Float64Array.from(members, (task) => at(end_s, task)),
      kind: Uint8Array.from(members, (task) => at(kind, task)),
    }));
  const laneOf = new Int32Array(numTasks);
  const positionOf = new Int32Array(numTasks);
  lanes.forEach((lane, index) => lane.tasks.forEach((task, position) => ((laneOf[task] = index), (positionOf[task] = position))));
  return { document, numTasks, stepS: document.step_time_s, lanes, laneOf, positionOf };
}

const orNull = (value: number | null | undefined): number | null => (value == null || value < 0 ? null : value);

export function taskAt({ document }: Timeline, index: number): Task | null {
  const { rank, stream, kind, chunk, micro_batch, start_s, end_s } = document.tasks;
  const startS = start_s[index];
  if (startS === undefined) return null;
  return {
    index,
    rank: rank[index] ?? 0,
    stream: document.streams[stream[index] ?? 0] ?? "",
    kind: document.kinds[kind[index] ?? 0] ?? "",
    chunk: orNull(chunk[index]),
    microBatch: orNull(micro_batch[index]),
    startS,
    endS: end_s[index] ?? startS,
  };
}

/** Position of the first task of a lane that ends after `timeS`. */
export function firstAfter(lane: Lane, timeS: number): number {
  let low = 0;
  let high = lane.end.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((lane.end[middle] ?? 0) > timeS) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The task of a lane at a time or nearest to it within `reachS`, and how many lie in that reach. */
export function nearest(lane: Lane, timeS: number, reachS: number): { position: number; count: number } | null {
  let best = -1;
  let least = Infinity;
  let count = 0;
  for (let position = firstAfter(lane, timeS - reachS); position < lane.start.length; position++) {
    const start = lane.start[position] ?? 0;
    if (start > timeS + reachS) break;
    count++;
    const distance = Math.max(start - timeS, timeS - (lane.end[position] ?? 0), 0);
    if (distance < least) [least, best] = [distance, position];
  }
  // A task of no length that ends where the reach begins is not after it.
  return best < 0 ? null : { position: best, count };
}

export interface RankTotals {
  rank: number;
  computeS: number;
  communicationS: number;
  /** Communication while the rank computes nothing. */
  exposedS: number;
  bubbleS: number;
  peakBytes: number | null;
}

/** Sums over a step, by rank. */
export function rankTotals({ document }: Timeline): RankTotals[] {
  const { rank, stream, start_s, end_s } = document.tasks;
  const compute: Span[][] = Array.from({ length: document.num_ranks }, () => []);
  const communication: Span[][] = compute.map(() => []);
  rank.forEach((number, task) => {
    const name = document.streams[stream[task] ?? 0] ?? "";
    const spans = COMPUTE.has(name) ? compute : COMMUNICATION.has(name) ? communication : null;
    spans?.[number]?.push([start_s[task] ?? 0, end_s[task] ?? 0]);
  });
  const peaks = new Map(document.memory.rank.map((number, index) => [number, highest(document.memory.bytes[index] ?? [])]));
  return compute.map((own, number) => {
    const busy = union(own);
    const sent = union(communication[number] ?? []);
    return {
      rank: number,
      computeS: length(busy),
      communicationS: length(sent),
      exposedS: length(union([...sent, ...busy])) - length(busy),
      bubbleS: document.bubble_s[number] ?? 0,
      peakBytes: peaks.get(number) ?? null,
    };
  });
}

export function highest(values: readonly number[]): number {
  return values.reduce((a, b) => Math.max(a, b), 0);
}

/** The rank whose memory rises highest; null where the step has none. */
export function fullestRank({ rank, bytes }: TimelineDocument["memory"]): number | null {
  const peaks = bytes.map(highest);
  return rank[peaks.indexOf(Math.max(...peaks))] ?? null;
}

type Span = [number, number];

function union(spans: Span[]): Span[] {
  const merged: Span[] = [];
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}

function length(spans: readonly Span[]): number {
  return spans.reduce((total, [start, end]) => total + end - start, 0);
}

/** Seconds of each kind of task over all ranks, and whether the devices compute in them. */
export function kindTotals({ document }: Timeline): Map<number, { seconds: number; count: number; isCompute: boolean }> {
  const totals = new Map<number, { seconds: number; count: number; isCompute: boolean }>();
  document.tasks.kind.forEach((kind, task) => {
    const isCompute = COMPUTE.has(document.streams[document.tasks.stream[task] ?? 0] ?? "");
    const entry = totals.get(kind) ?? { seconds: 0, count: 0, isCompute };
    entry.seconds += (document.tasks.end_s[task] ?? 0) - (document.tasks.start_s[task] ?? 0);
    entry.count++;
    totals.set(kind, entry);
  });
  return totals;
}
