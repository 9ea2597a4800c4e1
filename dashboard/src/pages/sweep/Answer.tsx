import { Alert, Card, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle, IconClockPause } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import { CardHead } from "../../components/CardHead";
import { Sentences } from "../../components/Sentences";
import { StatTile } from "../../components/StatTile";
import { strategyText } from "../../components/strategy";
import { Warnings } from "../../components/Warnings";
import { bytes, compact, count, duration, percent, seconds } from "../../units/format";
import { intervalText, stepText, withStep } from "../../units/interval";
import { Pareto } from "./Pareto";
import { freeBytes, isPlanned, type Planned, type Sweep } from "./points";
import { Points, Structures } from "./Points";
import { Scaling } from "./Scaling";
import { Takes } from "./Takes";
import { measured } from "./words";

/** A sweep, wherever its document comes from. */
export function Answer({ sweep }: { sweep: Sweep }) {
  const { t } = useTranslation("sweep");
  const planned = sweep.points.filter(isPlanned);
  return (
    <Stack role="status">
      {sweep.stopped_by && (
        <Alert color="orange" variant="light" icon={<IconClockPause size={18} />} title={t("cut.title")} c="inherit">
          {t(`cut.${sweep.stopped_by}`, { done: count(sweep.num_done), points: count(sweep.num_points), defaultValue: t("cut.other", { done: count(sweep.num_done), points: count(sweep.num_points) }) })}
        </Alert>
      )}
      <Best sweep={sweep} planned={planned} />
      <Warnings warnings={sweep.warnings} />
      {planned.length > 0 && (
        <>
          <Scaling sweep={sweep} />
          <Takes sweep={sweep} />
          <SimpleGrid cols={{ base: 1, lg: 2 }}>
            <Pareto sweep={sweep} />
            <Card>
              <CardHead title={t("structures")} help={t("structuresHelp")} />
              <Structures sweep={sweep} />
            </Card>
          </SimpleGrid>
        </>
      )}
      <Points sweep={sweep} />
      <Card component="section" aria-label={t("assumed")}>
        <Title order={2}>{t("assumed")}</Title>
        <Sentences texts={sweep.assumptions} />
      </Card>
    </Stack>
  );
}

function Best({ sweep, planned }: { sweep: Sweep; planned: readonly Planned[] }) {
  const { t } = useTranslation("sweep");
  const best = planned.find(({ point }) => point === sweep.best?.point);
  if (!best || !sweep.best) {
    return (
      <Alert color="orange" variant="light" icon={<IconAlertTriangle size={18} />} title={t("noBest")} c="inherit">
        {sweep.why_none}
      </Alert>
    );
  }
  const numWithin = planned.filter(({ within }) => within).length;
  const interval = (value: number | null | undefined, format: (value: number) => string) => <div>{intervalText(t, withStep(best, value), format)}</div>;
  const isBound = Object.keys(sweep.constraints).length > 0;
  return (
    <>
      <Card component="section" aria-label={t("bestPoint")}>
        <Text size="sm" c="dimmed">
          {t("bestPoint")}
        </Text>
        <Text fz="lg" fw={600} style={{ overflowWrap: "anywhere" }}>
          {t("bestOn", { devices: count(best.num_devices), hardware: best.hardware, plan: strategyText(best.strategy) })}
        </Text>
        <Text size="sm">
          {t(`won.${sweep.best.objective}`)} {t(isBound ? "wonWithin" : "wonOf", { count: numWithin, number: count(numWithin), point: best.point })}{" "}
          {t(best.state === "proved" ? "provedPoint" : "foundPoint")}
        </Text>
      </Card>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
        <StatTile label={t("devices")} value={count(best.num_devices)} note={best.linearity_fraction == null ? undefined : t("linearNote", { share: percent(best.linearity_fraction) })} />
        <StatTile label={t("step")} value={seconds(best.step_time_s)} note={interval(best.step_time_s, stepText)} />
        <StatTile label={t("measure.days")} value={measured.days(best.days)} note={<>{interval(best.days, measured.days)}{t("forTokens", { tokens: compact(sweep.tokens) })}</>} />
        <StatTile label={t("measure.cost_usd")} value={measured.cost_usd(best.cost_usd)} note={best.cost_usd == null ? t("noPrice") : <>{interval(best.cost_usd, measured.cost_usd)}{t("deviceDays", { days: measured.device_days(best.device_days) })}</>} />
        <StatTile label={t("measure.energy_kwh")} value={measured.energy_kwh(best.energy_kwh)} note={best.energy_kwh == null ? t("noPower") : interval(best.energy_kwh, measured.energy_kwh)} />
        <StatTile label={t("memory")} value={bytes(best.peak_memory_bytes)} note={t("freeNote", { free: bytes(freeBytes(best)) })} />
      </SimpleGrid>
      <Text size="sm" c="dimmed">
        {t("took", { points: count(sweep.num_done), time: duration(sweep.elapsed_s) })}
      </Text>
    </>
  );
}
