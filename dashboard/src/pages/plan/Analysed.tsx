import { Alert, Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "../../i18n";

import type { Plan } from "../../api/queries";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { seconds } from "../../units/format";
import { analysisQuery, type Analysis } from "./data";

interface Props {
  studyId: string;
  plan: Plan;
  children: (analysis: Analysis) => ReactNode;
}

/** What the server prices when it is asked: while it does, and where it cannot. */
export function Analysed({ studyId, plan, children }: Props) {
  const { t } = useTranslation("plan");
  const { data, error, isPending, refetch } = useQuery(analysisQuery(studyId, plan.plan_id));
  if (isPending) return <LoadingRows />;
  if (error)
    return <ErrorState error={error} action={<Button variant="default" onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />;
  const stored = plan.estimate.step_time_s;
  const isSame = Math.abs(data.step_time_s - stored) < stored * 1e-6;
  return (
    <>
      {!isSame && (
        <Alert color="orange" variant="light" mb="md">
          {t("analysis.otherVersion", { version: data.version, now: seconds(data.step_time_s), stored: seconds(stored) })}
        </Alert>
      )}
      {children(data)}
    </>
  );
}
