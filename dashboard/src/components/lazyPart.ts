import { lazy, type ComponentType, type LazyExoticComponent } from "react";

const FIRST_MS = 500;
const LONGEST_MS = 8000;

const pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** What `load` gives, asked for again until it comes: a server that restarts is away for a while. */
export async function untilLoaded<Loaded>(load: () => Promise<Loaded>, wait: (ms: number) => Promise<void> = pause): Promise<Loaded> {
  for (let ms = FIRST_MS; ; ms = Math.min(2 * ms, LONGEST_MS)) {
    try {
      return await load();
    } catch {
      await wait(ms);
    }
  }
}

/** A part of a page in a file of its own. While the file does not come, the rest of the page stays. */
export function lazyPart<Props extends object>(load: () => Promise<ComponentType<Props>>): LazyExoticComponent<ComponentType<Props>> {
  return lazy(async () => ({ default: await untilLoaded(load) }));
}
