import { Card, Stack, Table, Text, Title } from "@mantine/core";
import { Suspense, useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Plan, Study } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { Drawn } from "../../components/chart/Drawn";
import { ChartCard } from "../../components/ChartCard";
import { Explained } from "../../components/Explained";
import { LoadingRows } from "../../components/Loading";
import { tierName } from "../../components/tiers";
import { lazyPart } from "../../components/lazyPart";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { bytes, bytesPerSecond, count, number, percent, seconds } from "../../units/format";
import { Analysed } from "./Analysed";
import type { Analysis, GroupTraffic } from "./data";
import { GROUP_COLORS } from "./groupColors";
import { Placement } from "./Placement";
import classes from "./Plan.module.css";

const MapCard = lazyPart(async () => (await import("./map/MapCard")).MapCard);

export function NetworkTab({ studyId, plan, study }: { studyId: string; plan: Plan; study: Study }) {
  return (
    <Analysed studyId={studyId} plan={plan}>
      {(analysis) => <Network analysis={analysis} plan={plan} study={study} />}
    </Analysed>
  );
}

function Network({ analysis, plan, study }: { analysis: Analysis; plan: Plan; study: Study }) {
  const { t } = useTranslation("plan");
  const { traffic } = analysis;
  if (traffic.length === 0)
    return (
      <Card>
        <Title order={2} mb={4}>
          {t("network.placement")}
        </Title>
        <Text size="sm">{t("network.none")}</Text>
      </Card>
    );
  return (
    <Stack gap="md">
      <Suspense fallback={<LoadingRows />}>
        <MapCard analysis={analysis} devices={study.num_devices} />
      </Suspense>
      <ChartCard title={t("network.placement")} subtitle={t("network.placementHelp")}>
        <Drawn numbers={() => [["group", "size", "stride"], ...analysis.placement.map(({ group, size, stride }) => [group, size, stride])]}>
          <div className={classes.wide} tabIndex={0} role="region" aria-label={t("network.placement")}>
            <Placement analysis={analysis} devices={study.num_devices} />
          </div>
        </Drawn>
      </ChartCard>
      <TrafficTable traffic={traffic} plan={plan} />
    </Stack>
  );
}

function TrafficTable({ traffic, plan }: { traffic: GroupTraffic[]; plan: Plan }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const rows = useMemo(
    () => traffic.flatMap((group) => group.tiers.map((tier, index) => ({ group, tier, isFirst: index === 0 }))),
    [traffic],
  );
  return (
    <Card>
      <CardHead title={t("network.traffic")} help={t("network.trafficHelp")} mb="xs" />
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("network.traffic")}>
        <Table className={classes.waterfall} horizontalSpacing="sm" verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("network.group")}</Table.Th>
              <Table.Th ta="right">{t("network.size")}</Table.Th>
              <Table.Th ta="right">
                <Explained text={t("network.timeHelp")}>{t("network.time")}</Explained>
              </Table.Th>
              <Table.Th>{t("network.tier")}</Table.Th>
              <Table.Th ta="right">
                <Explained text={t("network.membersHelp")}>{t("network.members")}</Explained>
              </Table.Th>
              <Table.Th ta="right">
                <Explained text={t("network.bytesHelp")}>{t("network.bytes")}</Explained>
              </Table.Th>
              <Table.Th ta="right">
                <Explained text={t("network.rateHelp")}>{t("network.rate")}</Explained>
              </Table.Th>
              <Table.Th style={{ minWidth: 110 }}>
                <span className="visually-hidden">{t("network.used")}</span>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(({ group, tier, isFirst }) => {
              const rate = tier.bytes_moved / group.time_s;
              const share = rate / tier.bandwidth_bytes_per_s;
              const color = seriesColor(palette, GROUP_COLORS[group.group]);
              return (
                <Table.Tr key={`${group.group}.${tier.tier}`}>
                  <Table.Td>
                    {isFirst && (
                      <>
                        <span className={classes.swatch} style={{ background: color }} />
                        {t(`network.groups.${group.group}`)}
                      </>
                    )}
                  </Table.Td>
                  <Table.Td className={classes.figure}>{isFirst && t("network.ranks", { count: group.size })}</Table.Td>
                  <Table.Td className={classes.figure}>
                    {isFirst && (
                      <>
                        {seconds(group.time_s)} ({percent(group.time_s / plan.estimate.step_time_s)})
                      </>
                    )}
                  </Table.Td>
                  <Table.Td>
                    {tierName(tier.tier)} <small>{t(`network.wiring.${tier.wiring}`)}</small>
                  </Table.Td>
                  <Table.Td className={classes.figure}>{Number.isInteger(tier.members) ? count(tier.members) : number(tier.members)}</Table.Td>
                  <Table.Td className={classes.figure}>{bytes(tier.bytes_moved)}</Table.Td>
                  <Table.Td className={classes.figure}>{t("network.of", { rate: bytesPerSecond(rate), most: bytesPerSecond(tier.bandwidth_bytes_per_s) })}</Table.Td>
                  <Table.Td>
                    <div className={classes.track} title={percent(share)}>
                      <div className={classes.bar} style={{ left: 0, width: `${Math.min(share, 1) * 100}%`, background: color }} />
                    </div>
                  </Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
