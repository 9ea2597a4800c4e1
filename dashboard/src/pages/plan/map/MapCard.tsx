import { Group, NativeSelect, NumberInput, Table, Text, Title } from "@mantine/core";
import { useCallback, useId, useMemo, useState } from "react";
import { marks, useTranslation } from "../../../i18n";

import { ChartCard } from "../../../components/ChartCard";
import { tierName } from "../../../components/tiers";
import { useUrlText } from "../../../state/url";
import { seriesColor } from "../../../theme/palette";
import { usePalette } from "../../../theme/usePalette";
import { count } from "../../../units/format";
import type { Analysis } from "../data";
import { GROUP_COLORS } from "../groupColors";
import { positionColors } from "../positions";
import { STRIPES } from "./draw";
import { membersOf, peersByTier, positionIn, ranksText, type Placed } from "./groups";
import { MapCanvas, type Marked } from "./MapCanvas";
import classes from "./Map.module.css";

const MOST_IN_LEGEND = 24;

interface Props {
  analysis: Analysis;
  devices: number;
}

/** Every device of the cluster where it stands, and with whom it speaks. */
export function MapCard({ analysis, devices }: Props) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const helpId = useId();
  const groups = useMemo(() => analysis.placement.filter(({ size }) => size > 1), [analysis]);
  const usual = groups.some(({ group }) => group === "pp") ? "pp" : (groups[0]?.group ?? "tp");
  const [byName, setBy] = useUrlText("by", usual);
  const by = groups.find(({ group }) => group === byName) ?? groups.find(({ group }) => group === usual);
  const [deviceText, setDevice] = useUrlText("device");
  const chosen = /^\d{1,9}$/.test(deviceText) && Number(deviceText) < devices ? Number(deviceText) : null;
  const [pointed, setPointed] = useState<number | null>(null);
  const [perCell, setScale] = useState(1);
  const [said, setSaid] = useState("");
  const rank = pointed ?? chosen;
  const marked = useMemo<Marked[]>(
    () => groups.map((group) => ({ group, color: seriesColor(palette, GROUP_COLORS[group.group]) })),
    [groups, palette],
  );
  const onChoose = useCallback(
    (next: number | null, byKeyboard: boolean) => {
      setDevice(next === null ? "" : String(next));
      if (byKeyboard) setSaid(next === null ? "" : [t("map.rank", { rank: next }), ...groups.map((group) => spoken(group, next, analysis, t))].join(marks().semicolon));
    },
    [setDevice, groups, analysis, t],
  );
  if (!by) return null;
  const { devices_per_node: perNode } = analysis;
  const label = t("map.label", {
    count: devices,
    devices: count(devices),
    nodes: count(Math.ceil(devices / perNode)),
    by: t(`network.groups.${by.group}`),
    size: count(by.size),
  });
  return (
    <ChartCard
      title={t("map.title")}
      subtitle={`${label} ${perCell > 1 ? t("map.shared", { count: perCell, devices: count(perCell) }) : ""}`}
      actions={
        <>
          <NativeSelect
            size="xs"
            aria-label={t("map.by")}
            value={by.group}
            onChange={(event) => setBy(event.currentTarget.value)}
            data={groups.map(({ group }) => ({ value: group, label: t("map.byOne", { group: t(`network.groups.${group}`) }) }))}
          />
          <NumberInput
            size="xs"
            w={110}
            aria-label={t("map.choose")}
            placeholder={t("map.choose")}
            min={0}
            max={devices - 1}
            allowDecimal={false}
            value={chosen ?? ""}
            onChange={(value) => setDevice(String(value))}
          />
        </>
      }
    >
      <span id={helpId} className="visually-hidden">
        {t("map.help")}
      </span>
      <div className={classes.parts}>
        <div>
          <MapCanvas
            analysis={analysis}
            devices={devices}
            by={by}
            marked={marked}
            rank={rank}
            chosen={chosen}
            onPoint={setPointed}
            onChoose={onChoose}
            onScale={setScale}
            label={label}
            describedBy={helpId}
          />
          <Legend by={by} isMixed={Math.min(by.size, perCell / by.stride) > STRIPES} />
        </div>
        <Members analysis={analysis} rank={rank} marked={marked} />
      </div>
      <div className="visually-hidden" role="status">
        {said}
      </div>
    </ChartCard>
  );
}

type Translate = ReturnType<typeof useTranslation>["t"];

const through = (group: Placed, rank: number, { tiers }: Analysis, t: Translate): string =>
  peersByTier(tiers, rank, membersOf(group, rank))
    .map(({ tier, peers }) => t("map.peers", { count: peers, peers: count(peers), tier: tierName(tier) }))
    .join(marks().list);

const spoken = (group: Placed, rank: number, analysis: Analysis, t: Translate): string =>
  `${t(`network.groups.${group.group}`)}${marks().colon}${ranksText(membersOf(group, rank), count)}${marks().comma}${through(group, rank, analysis, t)}`;

function Legend({ by, isMixed }: { by: Placed; isMixed: boolean }) {
  const { t } = useTranslation("plan");
  const palette = usePalette();
  const colors = positionColors(palette, by.size);
  const step = Math.ceil(by.size / MOST_IN_LEGEND);
  const shown = colors.map((color, place) => ({ color, place })).filter(({ place }) => place % step === 0 || place === by.size - 1);
  return (
    <ul className={classes.legend} aria-label={t("map.legend", { group: t(`network.groups.${by.group}`) })}>
      {shown.map(({ color, place }) => (
        <li key={place}>
          <span className={classes.swatch} style={{ background: color }} />
          {place}
        </li>
      ))}
      {isMixed && (
        <li>
          <span className={classes.swatch} style={{ background: palette.muted }} />
          {t("map.mixed")}
        </li>
      )}
    </ul>
  );
}

/** The chosen device: where it stands, and the members of its groups with the tiers that they share. */
function Members({ analysis, rank, marked }: { analysis: Analysis; rank: number | null; marked: readonly Marked[] }) {
  const { t } = useTranslation("plan");
  const titleId = useId();
  if (rank === null)
    return (
      <Text size="sm" c="dimmed">
        {t("map.nothing")}
      </Text>
    );
  const { devices_per_node: perNode } = analysis;
  return (
    <section aria-labelledby={titleId}>
      <Group justify="space-between" gap="xs" mb={4}>
        <Title order={3} id={titleId}>
          {t("map.rank", { rank: count(rank) })}
        </Title>
        <Text size="sm" c="dimmed">
          {t("map.place", { node: count(Math.floor(rank / perNode)), device: rank % perNode })}
        </Text>
      </Group>
      <Table className={classes.members} verticalSpacing={4} horizontalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("network.group")}</Table.Th>
            <Table.Th>{t("map.position")}</Table.Th>
            <Table.Th>{t("map.members")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {marked.map(({ group, color }) => (
            <Table.Tr key={group.group}>
              <Table.Th scope="row">
                <span className={classes.frame} style={{ borderColor: color }} />
                {t(`network.groups.${group.group}`)}
              </Table.Th>
              <Table.Td className="number">{t("map.of", { position: count(positionIn(group, rank)), size: count(group.size) })}</Table.Td>
              <Table.Td>
                <span className="number">{ranksText(membersOf(group, rank), count)}</span>
                <Text size="xs" c="dimmed">
                  {through(group, rank, analysis, t)}
                </Text>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
