import { Button, Card, SimpleGrid, Stack, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { CardHead } from "../../components/CardHead";
import { ChartCard } from "../../components/ChartCard";
import { saveFile } from "../../components/saveFile";
import { StatTile } from "../../components/StatTile";
import { strategyText } from "../../components/strategy";
import { Warnings } from "../../components/Warnings";
import { bytes, count, number, percent, seconds } from "../../units/format";
import { HeatMap } from "./HeatMap";
import { cellsOf, mapOf } from "./request";

type Plan = Schemas["ExpertPlanDocument"];

/** Whether to move, what it gains, and the load of each layer and rank before and after. */
export function Answer({ answer }: { answer: Plan }) {
  const { t } = useTranslation("experts");
  const most = cellsOf(answer.relative_loads_before).most;
  const table = {
    columns: [t("layer"), t("loadBefore"), t("loadAfter"), t("exposedBefore"), t("exposedAfter"), t("moves"), t("net")],
    rows: answer.layers.map((layer) => [
      String(layer.layer),
      number(layer.load_before, 4),
      number(layer.load_after, 4),
      seconds(layer.exposed_before_s),
      seconds(layer.exposed_after_s),
      count(layer.num_moves),
      seconds(layer.net_s),
    ]),
  };
  return (
    <Stack role="status">
      <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
        <StatTile
          label={t("load")}
          help={t("loadHelp")}
          value={t("change", { before: number(answer.load_before, 4), after: number(answer.load_after, 4) })}
          note={t("bound", { bound: number(answer.load_bound, 4) })}
        />
        <StatTile
          label={t("step")}
          value={t("change", { before: seconds(answer.step_time_before_s), after: seconds(answer.step_time_after_s) })}
          note={t("balanced", { time: seconds(answer.step_time_balanced_s) })}
          {...(answer.is_worth && { tone: "good" as const })}
        />
        <StatTile
          label={t("cost")}
          value={seconds(answer.moves.time_s)}
          note={
            answer.moves.break_even_steps == null
              ? t("nothingMoves")
              : t("breakEven", { steps: number(answer.moves.break_even_steps, 2), size: bytes(answer.moves.total_bytes) })
          }
        />
      </SimpleGrid>
      <Warnings warnings={answer.warnings} />
      <Card component="section" aria-label={t("why")}>
        <Stack gap={6} style={{ overflowWrap: "anywhere" }}>
          <CardHead title={t("why")} mb={0}>
            <Button
              variant="default"
              leftSection={<IconDownload size={15} />}
              onClick={() => saveFile("expert_map.json", "application/json", JSON.stringify(mapOf(answer.placement), null, 2))}
            >
              {t("save")}
            </Button>
          </CardHead>
          <Text size="sm">{answer.reason}</Text>
          <Text size="sm">
            {t("group", { strategy: strategyText(answer.strategy), experts: answer.num_experts, ranks: answer.num_ranks, nodes: answer.num_nodes })}
          </Text>
          <Text size="sm">
            {t("movesOf", { inside: count(answer.moves.num_inside), between: count(answer.moves.num_between), size: bytes(answer.moves.bytes_per_expert) })}
          </Text>
          {answer.copies.slots_per_rank > 0 && (
            <Text size="sm">{t("copies", { slots: answer.copies.slots_per_rank, size: bytes(answer.copies.bytes_per_rank) })}</Text>
          )}
          <Text size="sm">
            {answer.forecast.num_held_back > 0
              ? t("heldBack", {
                  steps: answer.forecast.num_held_back,
                  method: t(`method.${answer.forecast.method}`),
                  error: percent(answer.forecast.errors[answer.forecast.method], 2),
                  realised: percent(answer.forecast.realised_fraction, 0),
                })
              : t("notHeldBack")}
          </Text>
        </Stack>
      </Card>
      <ChartCard title={t("before")} subtitle={t("mapHelp")} table={table}>
        <HeatMap loads={answer.relative_loads_before} layers={answer.layers.map(({ layer }) => layer)} most={most} label={t("mapBefore", { load: number(most, 3) })} />
      </ChartCard>
      <ChartCard title={t("after")} subtitle={t("mapHelp")} table={table}>
        <HeatMap
          loads={answer.relative_loads_after}
          layers={answer.layers.map(({ layer }) => layer)}
          most={most}
          label={t("mapAfter", { load: number(cellsOf(answer.relative_loads_after).most, 3) })}
        />
      </ChartCard>
    </Stack>
  );
}
