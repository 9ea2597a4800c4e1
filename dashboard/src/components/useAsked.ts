import { useCallback, useEffect, useRef, useState } from "react";

import { toApiError, type ApiError } from "../api/problem";

interface Asked<Answer> {
  answer: Answer | null;
  refusal: ApiError | null;
  /** When the question that is still open was asked. [ms of `performance.now`] */
  sinceMs: number | null;
}

const NOTHING = { answer: null, refusal: null, sinceMs: null };

/** One question at a time to the server, whose answer takes a while: what came of the last one, and a way to give up. */
export function useAsked<Answer>() {
  const [asked, setAsked] = useState<Asked<Answer>>(NOTHING);
  const open = useRef<AbortController | null>(null);

  const ask = useCallback(async (question: (signal: AbortSignal) => Promise<Answer>): Promise<Answer | null> => {
    open.current?.abort();
    const own = (open.current = new AbortController());
    setAsked({ ...NOTHING, sinceMs: performance.now() });
    try {
      const answer = await question(own.signal);
      if (open.current === own) setAsked({ ...NOTHING, answer });
      return answer;
    } catch (failure) {
      if (open.current === own) setAsked({ ...NOTHING, refusal: own.signal.aborted ? null : toApiError(failure) });
      return null;
    }
  }, []);
  const giveUp = useCallback(() => {
    open.current?.abort();
    open.current = null;
    setAsked(NOTHING);
  }, []);
  useEffect(() => () => open.current?.abort(), []);
  return { ...asked, isBusy: asked.sinceMs !== null, ask, giveUp };
}
