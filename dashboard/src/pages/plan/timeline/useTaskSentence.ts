import { useCallback } from "react";

import { useTranslation } from "../../../i18n";
import { seconds } from "../../../units/format";
import type { Task } from "./tasks";

/** A task of a timeline in a sentence, which screen readers hear in its place. */
export function useTaskSentence(): (task: Task) => string {
  const { t } = useTranslation("plan");
  return useCallback(
    ({ kind, rank, microBatch, startS, endS }) =>
      t("timeline.said", {
        kind: t(`kind.${kind}`, { defaultValue: kind }),
        rank,
        microBatch: microBatch ?? "–",
        duration: seconds(endS - startS),
        start: seconds(startS),
      }),
    [t],
  );
}
