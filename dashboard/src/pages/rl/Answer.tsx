import { Alert, Card, SimpleGrid, Stack, Table, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconClockPause } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import { CardHead } from "../../components/CardHead";
import { Sentences } from "../../components/Sentences";
import { StatTile } from "../../components/StatTile";
import { bytes, compact, count, number, seconds, signedPercent } from "../../units/format";
import { intervalText, stepText, withStep } from "../../units/interval";
import { Parts } from "./Parts";
import { Pareto, Placements } from "./Placements";
import { changeOf, instanceText, isSearch, layoutText, type Plan, type Search, type Step } from "./steps";
import { Switches } from "./Switches";
import { Timeline } from "./Timeline";

const LEAST_GAIN = 5e-4;

interface Props {
  answer: Step | Search;
  /** Asks for the step of one placement; without it placements are only listed. */
  onLook: ((plan: Plan) => void) | null;
}

/** A step of post-training, or a search of its placements, wherever the document comes from. */
export function Answer({ answer, onLook }: Props) {
  const { t } = useTranslation("rl");
  const search = isSearch(answer) ? answer : null;
  const step = isSearch(answer) ? answer.best : answer;
  if (!step) {
    return (
      <Alert color="orange" variant="light" icon={<IconAlertTriangle size={18} />} title={t("noBest")} c="inherit">
        {search && "why_none" in search ? search.why_none : ""}
      </Alert>
    );
  }
  const warnings = [...new Set([...answer.warnings, ...step.warnings])];
  return (
    <Stack role="status">
      {search?.stopped_by && (
        <Alert color="orange" variant="light" icon={<IconClockPause size={18} />} title={t("cut")} c="inherit">
          {t("cutText", { done: count(search.num_done), splits: count(search.num_splits) })}
        </Alert>
      )}
      <Card component="section" aria-label={t(search ? "bestPlacement" : "step")}>
        <Text size="sm" c="dimmed">
          {search ? t("bestOf", { count: search.priced, number: count(search.priced) }) : t("oneStep")}
        </Text>
        <Text fz="lg" fw={600} style={{ overflowWrap: "anywhere" }}>
          {t("planTitle", { placement: t(`placement.${step.placement}`, { defaultValue: step.placement }), rollout: count(step.rollout_devices), train: count(step.train_devices) })}
        </Text>
        <Text size="sm">
          {t("layouts", { training: layoutText(step.strategy), instances: instanceText(step.rollout_layout) })} {step.staleness_steps == null ? t("staleAny") : t("staleText", { count: step.staleness_steps, steps: count(step.staleness_steps) })}
        </Text>
      </Card>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
        <StatTile label={t("step")} help={t("stepHelp")} value={seconds(step.step_time_s)} note={intervalText(t, withStep(step, step.step_time_s), stepText)} />
        <StatTile label={t("throughput")} help={t("throughputHelp")} value={compact(step.tokens_per_s)} note={<><div>{t("tokensPerS")}</div>{intervalText(t, withStep(step, step.tokens_per_s, "shrinks"), compact)}</>} />
        <StatTile label={t("perDevice")} value={number(step.tokens_per_s_per_device, 4)} note={t("answersPerDevice", { rate: number(step.output_tokens_per_s_per_device, 4) })} />
        <StatTile
          label={t("weights")}
          help={t("weightsHelp", { engine: step.reshard.engine })}
          value={seconds(step.reshard.seconds, 3)}
          note={t("weightsNote", { size: bytes(step.reshard.device_bytes), wire: seconds(step.reshard.wire_s, 3) })}
        />
        <StatTile
          label={t("memory")}
          value={bytes(step.training_peak_memory_bytes)}
          note={t(step.training_fits ? "fits" : "tooLarge")}
          {...(!step.training_fits && { tone: "bad" as const })}
        />
      </SimpleGrid>
      {warnings.length > 0 && (
        <Alert color="orange" variant="light" icon={<IconAlertTriangle size={18} />} c="inherit">
          <Stack gap={4}>
            {warnings.map((text) => (
              <Text key={text} size="sm">
                {text}
              </Text>
            ))}
          </Stack>
        </Alert>
      )}
      <Timeline step={step} />
      <Parts step={step} />
      {search && (
        <>
          <Placements search={search} onLook={onLook} />
          <Pareto search={search} />
        </>
      )}
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <Variants step={step} />
        <Card component="section" aria-labelledby="rl-reshard">
          <Title order={2} id="rl-reshard">
            {t("switch")}
          </Title>
          <Text size="sm" mt="xs">
            {t("switchText", {
              offload: seconds(step.reshard.offload_s, 3),
              onload: seconds(step.reshard.onload_s, 3),
              model: bytes(step.reshard.model_bytes),
              residual: bytes(step.reshard.residual_bytes),
            })}
          </Text>
          {step.switches && <Switches switches={step.switches} />}
          <Title order={2} mt="md">
            {t("assumed")}
          </Title>
          <Sentences texts={[...answer.assumptions, ...(search?.refused ?? []).map((text) => t("refused", { reason: text }))]} />
        </Card>
      </SimpleGrid>
    </Stack>
  );
}

/** The same step with one thing otherwise. */
function Variants({ step }: { step: Step }) {
  const { t } = useTranslation("rl");
  if (step.variants.length === 0) return null;
  return (
    <Card component="section" aria-label={t("variantsOf")}>
      <CardHead title={t("variants")} help={t("variantsHelp")} />
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("variants")}>
        <Table horizontalSpacing="sm" verticalSpacing={5}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("change")}</Table.Th>
              <Table.Th ta="right">{t("step")}</Table.Th>
              <Table.Th ta="right">{t("tokensPerS")}</Table.Th>
              <Table.Th ta="right">{t("gain")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {step.variants.map(({ change, step_time_s: time, tokens_per_s: rate, gain_fraction: gain }) => {
              const known = changeOf(change);
              return (
                <Table.Tr key={change}>
                  <Table.Td>{known ? t(`variant.${known.key}`, { steps: known.steps }) : change}</Table.Td>
                  <Table.Td ta="right" className="number">
                    {seconds(time)}
                  </Table.Td>
                  <Table.Td ta="right" className="number">
                    {compact(rate)}
                  </Table.Td>
                  <Table.Td ta="right" className="number">{Math.abs(gain) < LEAST_GAIN ? t("nothing") : signedPercent(gain)}</Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
