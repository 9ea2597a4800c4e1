import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { answered, api } from "../../api/client";
import type { Plan } from "../../api/queries";
import { strategyText } from "../../components/strategy";
import { marks, useTranslation } from "../../i18n";
import { seconds } from "../../units/format";

const MOST = 200; // of a ranking; its table leads to the others

interface Props {
  studyId: string;
  plan: Plan;
  letter: string;
  onPlan: (planId: string) => void;
}

/** Another plan of the same study in an item's place; the plans are asked for when somebody looks. */
export function PlanSelect({ studyId, plan, letter, onPlan }: Props) {
  const { t } = useTranslation("compare");
  const [isWanted, setWanted] = useState(false);
  const { data } = useQuery({
    queryKey: ["ranking", studyId, "first"],
    queryFn: ({ signal }) => answered(api.GET("/v1/studies/{study_id}/ranking", { params: { path: { study_id: studyId }, query: { limit: MOST } }, signal })),
    staleTime: Infinity,
    enabled: isWanted,
  });
  const others = (data?.items ?? []).filter(({ plan_id }) => plan_id !== plan.plan_id);
  const options = others.map(({ plan_id, rank, strategy, estimate }) => ({
    value: plan_id,
    label: `${t("planTitle", { rank, strategy: strategyText(strategy) })}${marks().comma}${seconds(estimate.step_time_s)}`,
  }));
  return (
    <Select
      mt={4}
      size="xs"
      aria-label={t("pick.plan", { letter })}
      placeholder={t("pick.another")}
      data={options}
      value={null}
      onChange={(planId) => planId && onPlan(planId)}
      onDropdownOpen={() => setWanted(true)}
      searchable
      nothingFoundMessage={t(data ? "pick.noPlan" : "common:loading")}
      comboboxProps={{ withinPortal: true, width: "max-content", position: "bottom-start" }}
      maxDropdownHeight={320}
    />
  );
}
