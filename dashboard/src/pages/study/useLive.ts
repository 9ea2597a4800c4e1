import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { readEvents } from "../../api/events";
import { ApiError } from "../../api/problem";
import { FINISHED, studyQuery, type Study } from "../../api/queries";

/** What a search reports about once a second; null and undefined where it does not count that. */
export interface Progress {
  done_fraction: number;
  elapsed_s: number;
  phase?: string;
  enumerated: number | null;
  legal: number | null;
  fits_memory: number | null;
  simulated?: number | null;
  pruned_by_bound?: number | null;
  sampled?: number | null;
  best_step_time_s: number | null;
}

export interface Live {
  history: readonly Progress[];
  connection: "open" | "lost";
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const TOGETHER_MS = 100;

/**
 * The search as it runs: the stream first repeats what was reported before, goes on after the last event when the connection
 * comes back, and ends with the study, which is then read again.
 */
export function useLive(study: Study): Live {
  const queries = useQueryClient();
  const [history, setHistory] = useState<readonly Progress[]>([]);
  const [connection, setConnection] = useState<Live["connection"]>("open");
  const { id } = study;
  const isOpen = !FINISHED.includes(study.state);

  useEffect(() => {
    if (!isOpen) return undefined;
    const stop = new AbortController();
    const reports: Progress[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;

    // A stream that begins repeats hundreds of events at once.
    const show = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        setHistory([...reports]);
      }, TOGETHER_MS);
    };
    const refresh = () => queries.invalidateQueries({ queryKey: studyQuery(id).queryKey, exact: true });

    async function follow(): Promise<void> {
      let lastId = "";
      let pauseMs = FIRST_PAUSE_MS;
      while (!stop.signal.aborted) {
        try {
          for await (const event of readEvents(`/v1/studies/${id}/events`, stop.signal, lastId)) {
            setConnection("open");
            pauseMs = FIRST_PAUSE_MS;
            lastId = event.id || lastId;
            if (event.kind === "progress") {
              reports.push(event.data as unknown as Progress);
              show();
            } else if (event.kind === "state") void refresh();
          }
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error instanceof ApiError && error.status >= 400 && error.status < 500) break; // refused, not silent: the study has gone
          setConnection("lost");
        }
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
        await refresh(); // a stream also ends with its study
      }
      await refresh();
    }
    void follow();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, isOpen, queries]);

  return { history, connection };
}
