import { Suspense } from "react";

import { LoadingRows } from "../../components/Loading";
import { WhenVisible } from "../../components/WhenVisible";
import { lazyPart } from "../../components/lazyPart";
import type { Baseline, RankedPlan } from "./data";
import type { Dimension, Filter } from "./dimensions";
import { Scatter } from "./Scatter";
import { Shares } from "./Shares";
import classes from "./Study.module.css";

const BELOW_PX = 700; // about what these two take

const Parallel = lazyPart(async () => (await import("./Parallel")).Parallel);
const Importance = lazyPart(async () => (await import("./Importance")).Importance);

interface Props {
  plans: readonly RankedPlan[];
  kept: readonly RankedPlan[];
  pins: readonly string[];
  baseline: Baseline | null;
  dimensions: readonly Dimension[];
  filters: readonly Filter[];
  onFilters: (filters: readonly Filter[]) => void;
}

/** The plans as pictures; loaded after the table, with the library that draws them. */
export function PlanCharts({ plans, kept, pins, baseline, dimensions, filters, onFilters }: Props) {
  return (
    <>
      <div className={classes.halves}>
        <Scatter plans={plans} kept={kept} pins={pins} baseline={baseline} dimensions={dimensions} />
        <Shares plans={kept} baseline={baseline} />
      </div>
      {plans.length > 1 && dimensions.length > 1 && (
        <WhenVisible height={BELOW_PX}>
          <Suspense fallback={<LoadingRows />}>
            <Parallel plans={plans} pins={pins} dimensions={dimensions} filters={filters} onFilters={onFilters} />
            <Importance plans={plans} dimensions={dimensions} />
          </Suspense>
        </WhenVisible>
      )}
    </>
  );
}
