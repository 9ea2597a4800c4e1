import { Badge, Card, Code, Group, Text, Title } from "@mantine/core";
import { bracketed, marks, useTranslation } from "../../i18n";

import type { Plan, Strategy, Study } from "../../api/queries";
import { changeText } from "../../components/strategy";
import { count, seconds } from "../../units/format";
import classes from "./Plan.module.css";

/** The choice itself, every default resolved. */
export function StrategyFacts({ plan, study }: { plan: Plan; study: Study }) {
  const { t } = useTranslation("plan");
  const { strategy } = plan;
  const degrees = (["tp", "cp", "pp", "dp"] as const).map((name) => `${name} ${count(strategy[name])}`).join(" × ");
  const bySwitch = strategy.recompute.granularity === "none" ? (plan.estimate.time_breakdown_s.recompute ?? 0) : 0; // moe_zero_memory and others
  const facts: [string, string][] = [
    [t("strategy.devices"), `${degrees} = ${count(study.num_devices)}`],
    [t("common:strategy.schedule"), strategy.schedule],
    [
      t("common:strategy.num_microbatches"),
      t("strategy.microBatches", { number: strategy.num_microbatches ?? "–", size: strategy.micro_batch_size }),
    ],
    ...(strategy.vpp > 1 ? ([[t("common:strategy.vpp"), String(strategy.vpp)]] as [string, string][]) : []),
    ...(strategy.ep > 1 ? ([[t("common:strategy.ep"), `ep ${strategy.ep}, etp ${strategy.etp}`]] as [string, string][]) : []),
    ...(strategy.moe_dispatcher ? ([[t("common:strategy.moe_dispatcher"), strategy.moe_dispatcher]] as [string, string][]) : []),
    ...(strategy.cp > 1 ? ([[t("strategy.cpAlgo"), cpAlgorithm(strategy)]] as [string, string][]) : []),
    [t("common:strategy.recompute"), bySwitch > 0 ? t("strategy.recomputeBySwitch", { form: recompute(strategy), time: seconds(bySwitch) }) : recompute(strategy)],
    [t("common:strategy.zero_stage"), String(strategy.zero_stage)],
    [t("common:strategy.sequence_parallel"), t(strategy.sequence_parallel ? "strategy.on" : "strategy.off")],
    [strategy.vpp > 1 ? t("strategy.layersOfChunks", { count: strategy.vpp }) : t("strategy.layers"), layers(strategy, t("strategy.empty", { count: strategy.noop_layers, number: count(strategy.noop_layers) }))],
  ];
  return (
    <Card>
      <Title order={2} mb="xs">
        {t("strategy.title")}
      </Title>
      <dl className={classes.facts}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {strategy.features.length > 0 && (
        <>
          <Text size="xs" c="dimmed" mt="sm" mb={4}>
            {t("strategy.features")}
          </Text>
          <Group gap={4}>
            {strategy.features.map((feature) => (
              <Code key={feature}>{feature}</Code>
            ))}
          </Group>
        </>
      )}
      {plan.variants.length > 0 && (
        <>
          <Text size="xs" c="dimmed" mt="sm" mb={4}>
            {t("strategy.variants")}
          </Text>
          <Group gap={4}>
            {plan.variants.map((variant) => (
              <Badge key={variant.plan_id} variant="default" tt="none" fw={450} className={classes.wrapping}>
                {changeText(variant.change)}
              </Badge>
            ))}
          </Group>
        </>
      )}
    </Card>
  );
}

function cpAlgorithm({ cp_algo, ulysses_degree }: Strategy): string {
  return cp_algo === "hybrid" ? `hybrid, ulysses ${ulysses_degree}` : (cp_algo ?? "–");
}

function recompute({ recompute: { granularity, method, num_layers, modules, layers_per_stage } }: Strategy): string {
  const detail = [method, num_layers, modules.join(" + "), layers_per_stage?.join(" ")].filter((part) => part != null && part !== "");
  return [granularity, ...detail].join(marks().comma);
}

/** Layers of each stage, one group a chunk; a run of equal numbers is told once. */
function layers({ layer_layout, noop_layers }: Strategy, empty: string): string {
  const chunk = (row: readonly number[]) => (row.every((each) => each === row[0]) ? `${row.length} × ${row[0]}` : row.join(" "));
  return layer_layout.map(chunk).join(" | ") + (noop_layers ? bracketed(empty) : "");
}
