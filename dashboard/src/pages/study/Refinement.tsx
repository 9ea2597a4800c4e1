import { Card, Table, Text, Title } from "@mantine/core";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { changeText, strategyText } from "../../components/strategy";
import { bytes, count, duration, percent, seconds, signedPercent } from "../../units/format";
import type { Result } from "./data";

/** What trials around the best plans found, beside the proof: often nothing, and then it says so. */
export function Refinement({ result }: { result: Result }) {
  const { t } = useTranslation("study");
  const { refinement } = result;
  if (!refinement) return null;
  const { counts, gain_fraction: gain, plans, front } = refinement;
  return (
    <Card component="section" aria-labelledby="refinement">
      <Title order={2} id="refinement">
        {t("refinement.title")}
      </Title>
      <Text size="sm" fw={550}>
        {plans.length ? t("refinement.gain", { gain: percent(gain, 2) }) : t("refinement.noGain")}
      </Text>
      <Text size="sm" c="dimmed">
        {t("refinement.counts", {
          trials: count(counts.trials),
          sampler: t(`common:sampler.${refinement.sampler}`, { defaultValue: refinement.sampler }),
          distinct: count(counts.distinct),
          legal: count(counts.legal),
          fits: count(counts.fits_memory),
          pruned: count(counts.pruned_by_bound),
          simulated: count(counts.simulated),
          time: duration(result.timing.refine_s),
        })}{" "}
        {refinement.stopped_by && t(`refinement.stopped.${refinement.stopped_by}`, { defaultValue: refinement.stopped_by })}
      </Text>
      <Found label={t("refinement.plans")} plans={plans} />
      <Found label={t("refinement.front")} plans={front} />
    </Card>
  );
}

function Found({ label, plans }: { label: string; plans: readonly Schemas["RefinedPlanDocument"][] }) {
  const { t } = useTranslation("study");
  if (plans.length === 0) return null;
  return (
    <>
      <Text size="sm" fw={550} mt="sm">
        {label}
      </Text>
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={label}>
        <Table verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("column.plan")}</Table.Th>
              <Table.Th>{t("refinement.change")}</Table.Th>
              <Table.Th ta="right">{t("column.step")}</Table.Th>
              <Table.Th ta="right">{t("refinement.faster")}</Table.Th>
              <Table.Th ta="right">{t("column.memory")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {plans.map((plan) => (
              <Table.Tr key={plan.plan_id}>
                <Table.Td miw={200}>{strategyText(plan.strategy)}</Table.Td>
                <Table.Td miw={200}>{plan.change ? changeText(plan.change) : "–"}</Table.Td>
                <Table.Td ta="right" className="number">
                  {seconds(plan.estimate.step_time_s)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {signedPercent(plan.gain_fraction, 2)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {bytes(plan.estimate.peak_memory_bytes)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </>
  );
}
