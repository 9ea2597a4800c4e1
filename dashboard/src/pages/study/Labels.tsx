import { Space } from "@mantine/core";
import { lazy, Suspense } from "react";

import type { Study } from "../../api/queries";

const LINE_PX = 42;

const StudyLabels = lazy(async () => ({ default: (await import("../../components/labels/StudyLabels")).StudyLabels }));

/** What the study is called and who sees it; what is below does not move when that comes. */
export function Labels({ study }: { study: Study }) {
  return (
    <Suspense fallback={<Space h={LINE_PX} />}>
      <StudyLabels study={study} />
    </Suspense>
  );
}
