import { Select } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { bracketed, useTranslation } from "../../i18n";

import { studiesQuery } from "../../api/queries";
import { count, seconds } from "../../units/format";
import type { Entry } from "./entries";

/** Adds a study with its best plan. */
export function Picker({ entries, onAdd }: { entries: readonly Entry[]; onAdd: (entry: Entry) => void }) {
  const { t } = useTranslation("compare");
  const { data: studies } = useQuery(studiesQuery());
  const isOfPlans = entries.some(({ planId }) => planId !== null);
  const options = (studies ?? []).flatMap((study) => {
    const { best } = study;
    const isIn = entries.some(({ studyId, planId }) => studyId === study.id && (planId === null || planId === best?.plan_id));
    if (!best || isIn) return [];
    const label = t("pick.option", { model: study.name ? `${study.name}${bracketed(study.model)}` : study.model, devices: count(study.num_devices), hardware: study.hardware, step: seconds(best.step_time_s), id: study.id.slice(0, 6) });
    return [{ value: study.id, label }];
  });
  function add(studyId: string | null) {
    const best = studies?.find(({ id }) => id === studyId)?.best;
    if (studyId && best) onAdd({ studyId, planId: isOfPlans ? best.plan_id : null });
  }
  return (
    <Select
      w={{ base: "100%", xs: 380 }}
      maw="100%"
      aria-label={t("pick.label")}
      placeholder={studies && !options.length ? t("pick.none") : t("pick.label")}
      leftSection={<IconPlus size={15} />}
      data={options}
      value={null}
      onChange={add}
      searchable
      nothingFoundMessage={t("pick.noMatch")}
      comboboxProps={{ withinPortal: true, width: "max-content", position: "bottom-start" }}
      maxDropdownHeight={320}
      data-search
    />
  );
}
