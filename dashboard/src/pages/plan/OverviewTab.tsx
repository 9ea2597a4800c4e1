import { Anchor, Badge, Card, Group, List, Stack, Table, Text, Title } from "@mantine/core";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { Estimate, Plan, Study } from "../../api/queries";
import { exposedCommunication } from "../../components/communication";
import { Drawn } from "../../components/chart/Drawn";
import { ChartCard } from "../../components/ChartCard";
import { Explained } from "../../components/Explained";
import { partColors } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { count, percent, seconds } from "../../units/format";
import { largest } from "./compared";
import { extrapolation } from "./extrapolation";
import { StrategyFacts } from "./StrategyFacts";
import classes from "./Plan.module.css";

export function OverviewTab({ plan, study }: { plan: Plan; study: Study }) {
  return (
    <Stack gap="md">
      <Waterfall estimate={plan.estimate} />
      <div className={classes.halves}>
        <Interval estimate={plan.estimate} />
        <StrategyFacts plan={plan} study={study} />
      </div>
    </Stack>
  );
}

/** The step, part after part: a table whose bars stand where the part stands in the sum. */
function Waterfall({ estimate }: { estimate: Estimate }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const step = estimate.step_time_s;
  const communication = exposedCommunication(estimate);
  const rows = largest(estimate.time_breakdown_s);
  const hiddenOnly = Object.keys(estimate.masked_s).filter((part) => (estimate.masked_s[part] ?? 0) > 0 && !rows.some((row) => row.part === part));
  const all = [...rows, ...hiddenOnly.map((part) => ({ part, value: 0 }))];
  const colors = partColors(palette, all.map(({ part }) => part));
  const lines = () => [
    ["part", "exposed_s", "hidden_s"],
    ...all.map(({ part, value }) => [part, value, estimate.masked_s[part] ?? 0]),
  ];
  let before = 0;
  return (
    <ChartCard title={t("time.title")} subtitle={t("time.subtitle")}>
      <Drawn numbers={lines}>
        <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("time.title")}>
          <Table className={classes.waterfall} verticalSpacing={4} horizontalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("time.part")}</Table.Th>
                <Table.Th className={classes.barColumn}>
                  <span className="visually-hidden">{t("time.place")}</span>
                </Table.Th>
                <Table.Th ta="right">{t("time.exposed")}</Table.Th>
                <Table.Th ta="right">{t("time.share")}</Table.Th>
                <Table.Th ta="right">
                  <Explained text={t("time.hiddenHelp")}>{t("time.hidden")}</Explained>
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {all.map(({ part, value }) => {
                const left = before / step;
                before += value;
                const masked = estimate.masked_s[part] ?? 0;
                return (
                  <Table.Tr key={part}>
                    <Table.Td className={classes.partName}>
                      <span className={classes.swatch} style={{ background: colors[part] }} />
                      {t(`common:part.${part}`, { defaultValue: part })}
                    </Table.Td>
                    <Table.Td className={classes.barColumn}>
                      <div className={classes.track}>
                        <div
                          className={classes.bar}
                          style={{ left: `${left * 100}%`, width: `max(${(value / step) * 100}%, ${value ? 2 : 0}px)`, background: colors[part] }}
                        />
                      </div>
                    </Table.Td>
                    <Table.Td className={classes.figure}>{seconds(value)}</Table.Td>
                    <Table.Td className={classes.figure}>{percent(value / step)}</Table.Td>
                    <Table.Td className={classes.figure}>{masked > 0 ? seconds(masked) : "–"}</Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
            <Table.Tfoot>
              <Table.Tr>
                <Table.Th scope="row">{t("time.total")}</Table.Th>
                <Table.Td className={classes.barColumn}>
                  <div className={classes.track}>
                    <div className={classes.bar} style={{ left: 0, width: "100%", background: "var(--text-muted)" }} />
                  </div>
                </Table.Td>
                <Table.Td className={classes.figure} fw={600}>
                  {seconds(step)}
                </Table.Td>
                <Table.Td className={classes.figure}>{percent(1)}</Table.Td>
                <Table.Td />
              </Table.Tr>
              {communication > 0 && (
                <Table.Tr>
                  <Table.Th scope="row">
                    <Explained text={t("time.communicationHelp")}>{t("time.communication")}</Explained>
                  </Table.Th>
                  <Table.Td className={classes.barColumn} />
                  <Table.Td className={classes.figure}>{seconds(communication)}</Table.Td>
                  <Table.Td className={classes.figure}>{percent(communication / step)}</Table.Td>
                  <Table.Td />
                </Table.Tr>
              )}
            </Table.Tfoot>
          </Table>
        </Table.ScrollContainer>
      </Drawn>
    </ChartCard>
  );
}

/** How sure the step time is, and what that rests on. */
function Interval({ estimate }: { estimate: Estimate }) {
  const { t } = useTranslation("plan");
  const { step_time_low_s: low, step_time_high_s: high, step_time_s: step, step_time_lower_bound_s: bound, evidence } = estimate;
  return (
    <Card>
      <Group justify="space-between" mb="xs">
        <Title order={2}>{t("interval.title")}</Title>
        <Badge variant="light" color="gray" tt="none" fw={500} c="dimmed">
          {t(`interval.${estimate.fidelity}`)}
        </Badge>
      </Group>
      {low != null && high != null ? (
        <IntervalBar low={low} high={high} step={step} bound={bound} />
      ) : (
        <Text size="sm">{t("interval.none")}</Text>
      )}
      <Text size="sm" mt="sm">
        {evidence.num_runs > 0
          ? t("interval.rests", { count: evidence.num_runs, devices: count(evidence.max_devices) })
          : t("interval.restsOnOthers")}
      </Text>
      {evidence.extrapolated.length > 0 && (
        <>
          <Text size="sm" mt="xs">
            {t("interval.extrapolated")}
          </Text>
          <List size="sm" mt={4} spacing={2}>
            {evidence.extrapolated.map((sentence) => (
              <List.Item key={sentence}>{extrapolation(sentence, t)}</List.Item>
            ))}
          </List>
        </>
      )}
      <Text size="sm" mt="xs" c="dimmed">
        {t("interval.lowerBound", { bound: seconds(bound) })}{" "}
        <Anchor component={Link} to="/accuracy" size="sm" underline="always">
          {t("interval.accuracy")}
        </Anchor>
      </Text>
    </Card>
  );
}

function IntervalBar({ low, high, step, bound }: { low: number; high: number; step: number; bound: number }) {
  const { t } = useTranslation("plan");
  const least = Math.min(low, bound) * 0.96;
  const at = (value: number) => `${((value - least) / (high * 1.03 - least)) * 100}%`;
  const label = t("interval.label", { low: seconds(low), high: seconds(high), step: seconds(step) });
  return (
    <div role="img" aria-label={label} className={classes.interval}>
      <div className={classes.intervalTrack} />
      <div className={classes.intervalRange} style={{ left: at(low), right: `calc(100% - ${at(high)})` }} />
      <div className={classes.intervalBound} style={{ left: at(bound) }} />
      <div className={classes.intervalMark} style={{ left: at(step) }} />
      <strong className={classes.intervalStep} style={{ left: at(step) }} aria-hidden>
        {seconds(step)}
      </strong>
      <div className={classes.intervalTexts} aria-hidden>
        <span>
          {seconds(low)} <small>{signed(low / step - 1)}</small>
        </span>
        <span>
          {seconds(high)} <small>{signed(high / step - 1)}</small>
        </span>
      </div>
    </div>
  );
}

const signed = (fraction: number): string => `${fraction < 0 ? "−" : "+"}${percent(Math.abs(fraction), 0)}`;
