/** Words and addresses that several parts of the pages of checks share. */
import { useMemo } from "react";
import { marks, useTranslation } from "../../i18n";

import { moment } from "../../units/format";
import type { HistoryKey, KeptCheck, Line } from "./data";
import { shortName } from "./trends";

export function addressOf({ name, owner }: HistoryKey): string {
  const params = new URLSearchParams({ name, ...(owner !== null && { owner }) });
  return `/checks?${params.toString()}`;
}

export interface Words {
  metric: (name: string) => string;
  part: (name: string) => string;
  line: (line: Line) => string;
  check: (check: KeptCheck) => string;
}

/** A line is called by its metric; `budget.step_time_s.max`, `regression.step_time_s`. */
export function useWords(): Words {
  const { t } = useTranslation("checks");
  return useMemo(() => {
    const metric = (name: string) => t(`metric.${name}`, { defaultValue: name });
    return {
      metric,
      part: (name) => t(`common:part.${name}`, { defaultValue: name }),
      line: ({ id, metric: of }) => {
        const [kind, , end] = id.split(".");
        if (of === null || kind === "memory") return t(`lineName.${id}`, { defaultValue: id });
        return kind === "budget" ? `${metric(of)}${marks().comma}${t(end === "min" ? "least" : "most")}` : t("lineAgainst", { metric: metric(of) });
      },
      check: (check) => shortName(check, moment),
    };
  }, [t]);
}
