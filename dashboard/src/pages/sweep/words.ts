import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { amount, money } from "../../units/currency";
import { compact, count, duration, number } from "../../units/format";
import type { Point } from "./points";

/** What a point is called by: shared by the charts and the table. */
export function useWords() {
  const { t } = useTranslation("sweep");
  return useMemo(
    () => ({
      seq_length: (value: string) => t("ofSequence", { value }),
      global_batch_size: (value: string) => t("ofBatch", { value }),
    }),
    [t],
  );
}

const DAY_S = 86_400;

export const MEASURES = ["days", "device_days", "cost_usd", "energy_kwh"] as const;
export type Measure = (typeof MEASURES)[number];

export const measured: Record<Measure, (value: number | null | undefined) => string> = {
  days: (value) => (value == null ? "–" : duration(value * DAY_S)),
  device_days: (value) => (value != null && value < 100 ? number(value) : compact(value)),
  cost_usd: money,
  energy_kwh: (value) => (value == null ? "–" : value >= 1e4 ? `${count(value / 1e3)} MWh` : `${count(value)} kWh`),
};

/** What stands at a value of an axis of the measure. */
export const onAxis = (measure: Measure): ((value: number) => string) => (measure === "cost_usd" ? (usd) => amount(usd) : (value) => compact(value));

export const devicesOf = (point: Point): string => count(point.num_devices);
