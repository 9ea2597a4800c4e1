/** What an answer about post-training says, made ready for the page. */
import type { Schemas } from "../../api/client";
import { seriesColor, type Palette } from "../../theme/palette";

export type Step = Schemas["RlDocument"];
/** Of a question, or of a study, where nothing may have been found. */
export type Search = Schemas["RlSearchDocument"] | Schemas["RlStudyResult"];
export type Plan = Schemas["RlPlan"];
type Bar = Step["timeline"][number];

export const isSearch = (answer: Step | Search): answer is Search => "best" in answer;

/** Place in the palette of each task, the same on every chart. */
const TASKS: Record<string, number> = {
  rollout: 0, to_rollout: 6, to_train: 10, reward: 3, reference: 12, old_log_prob: 4, critic: 5, update: 1, training: 13, sync: 2, remainder: 9,
};

/** A queue hands a task over in pieces, `update 3`: the task is one. */
export const taskOf = (name: string): string => name.replace(/\W*\d+$/, "");

export const taskColor = (palette: Palette, task: string): string => seriesColor(palette, TASKS[taskOf(task)] ?? 9);

/** A bar on each pool that it holds; those that take no time are left out. Steps count from 1. */
export interface Block {
  pool: string;
  task: string;
  step: number;
  startS: number;
  endS: number;
  /** When what the task makes is there: after its end where the longest answers go on beside the next ones. */
  madeS: number;
  waitsFor: string;
}

/** What a task still makes after it has left its pool. Those that overlap stand in rows of their own, as far as there are. */
export interface Tail {
  block: Block;
  row: number;
}

const POOLS = ["rollout", "all", "train", "reference"];

/** Pools from the first to take a batch to the last. */
export function poolsOf(bars: readonly Bar[]): string[] {
  const found = [...new Set(bars.filter(({ start_s, end_s }) => end_s > start_s).flatMap(({ pools }) => pools))];
  return found.sort((a, b) => POOLS.indexOf(a) - POOLS.indexOf(b));
}

export function blocksOf(bars: readonly Bar[]): Block[] {
  const first = Math.min(...bars.map(({ step }) => step));
  return bars
    .filter(({ start_s, end_s }) => end_s > start_s)
    .flatMap((bar) => bar.pools.map((pool) => ({ pool, task: bar.task, step: bar.step - first + 1, startS: bar.start_s, endS: bar.end_s, madeS: bar.made_s ?? bar.end_s, waitsFor: bar.waits_for })));
}

const TAIL_ROWS = 3;
const LEAST_TAIL = 1e-3; // of the time shown: less is no line on a screen

export function tailsOf(blocks: readonly Block[]): Tail[] {
  const shownS = Math.max(0, ...blocks.map(({ endS }) => endS));
  const ends = new Map<string, number[]>();
  return blocks
    .filter(({ endS, madeS }) => madeS - endS > LEAST_TAIL * shownS)
    .sort((a, b) => a.endS - b.endS)
    .map((block) => {
      const taken = ends.get(block.pool) ?? Array<number>(TAIL_ROWS).fill(-Infinity);
      const row = Math.max(0, taken.findIndex((end) => end <= block.endS));
      taken[row] = block.madeS;
      ends.set(block.pool, taken);
      return { block, row };
    });
}

/** Devices of a pool of the step. */
export function devicesOf(step: Step, pool: string): number | null {
  if (pool === "rollout") return step.rollout_devices;
  if (pool === "train") return step.train_devices;
  if (pool === "reference") return step.reference_devices ?? null;
  return pool === "all" ? step.num_devices - (step.reference_devices ?? 0) : null;
}

/** "tp4 pp1 dp12": degrees above one, and how many replicas. */
export function layoutText(layout: { tp: number; pp: number; cp?: number; ep: number; dp: number }): string {
  const degrees = (["tp", "pp", "cp", "ep"] as const).filter((name) => (layout[name] ?? 1) > 1).map((name) => `${name.toUpperCase()}${layout[name]}`);
  return [...degrees, `DP${layout.dp}`].join(" ");
}

export function instanceText({ tp, pp, ep, instances }: Plan["rollout"]): string {
  const degrees = ([["TP", tp], ["PP", pp], ["EP", ep]] as const).filter(([, degree]) => degree > 1).map(([name, degree]) => `${name}${degree}`);
  return `${instances} × ${degrees.join(" ") || "TP1"}`;
}

/** The change of a variant as a string of the page and what it is filled with; null for one that the page does not know. */
export function changeOf(change: string): { key: string; steps?: number } | null {
  const stale = /^staleness (\d+)$/.exec(change);
  if (stale) return { key: "staleness", steps: Number(stale[1]) };
  const known: Record<string, string> = { synchronous: "synchronous", "any staleness": "any", "with a queue": "queue", "without a queue": "noQueue" };
  return known[change] ? { key: known[change] } : null;
}
