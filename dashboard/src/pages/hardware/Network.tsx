import { Slider, Table, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { Drawn } from "../../components/chart/Drawn";
import { ChartCard } from "../../components/ChartCard";
import { levels, tierLines, tierName } from "../../components/tiers";
import { Topology } from "../../components/Topology";
import { useUrlText } from "../../state/url";
import { bytesPerSecond, count, seconds } from "../../units/format";

const MAX_DEVICES = 8192;

/** Cluster sizes worth drawing: one device, whole domains of each tier, and what lies between by doubling. */
function sizes(tiers: readonly { domain_devices: number | null }[], perNode: number): number[] {
  const found = new Set<number>([perNode]);
  for (const { domain_devices: devices } of tiers) if (devices) found.add(devices);
  for (let devices = perNode; devices <= MAX_DEVICES; devices *= 2) found.add(devices);
  return [...found].sort((a, b) => a - b);
}

/** The network as a drawing of a cluster of a size that the reader chooses, and its tiers as a table. */
export function Network({ profile }: { profile: Schemas["HardwareDetails"] }) {
  const { t } = useTranslation("hardware");
  const { tiers, devices_per_node: perNode, device } = profile;
  const steps = useMemo(() => sizes(tiers, perNode), [tiers, perNode]);
  const usual = String(steps.find((size) => size >= perNode * 8) ?? perNode);
  const [text, setText] = useUrlText("devices", usual);
  const chosen = steps.indexOf(Number(text));
  const place = chosen >= 0 ? chosen : steps.indexOf(Number(usual));
  const devices = steps[place] ?? perNode;
  const used = levels(tiers, devices);
  return (
    <ChartCard
      title={t("network.title")}
      subtitle={t("network.help")}
      actions={
        <div style={{ flex: "0 1 300px", minWidth: 220 }}>
          <Text size="sm" fw={500} className="number">
            {t("network.devices", { count: devices, devices: count(devices) })}
          </Text>
          <Slider
            min={0}
            max={steps.length - 1}
            step={1}
            value={place}
            onChange={(index) => setText(String(steps[index] ?? usual))}
            label={null}
            thumbLabel={t("network.size")}
            thumbProps={{ "aria-valuetext": count(devices) }}
            mt={6}
          />
        </div>
      }
    >
      <Drawn numbers={() => tierLines(tiers)}>
        <Topology tiers={tiers} numDevices={devices} device={device} />
      </Drawn>
      <Table.ScrollContainer minWidth={0} type="native" mt="sm" tabIndex={0} role="region" aria-label={t("network.tiers")}>
        <Table verticalSpacing={6} fz="sm">
          <Table.Thead>
            <Table.Tr>
              {["tier", "wiring", "joins", "bandwidth", "latency", "inCluster"].map((column) => (
                <Table.Th key={column} style={{ whiteSpace: "nowrap" }}>
                  {t(`network.column.${column}`)}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {used.map(({ tier, isUsed, devices: joined }) => (
              <Table.Tr key={tier.name}>
                <Table.Td fw={550}>{tierName(tier.name)}</Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>{t(`wiring.${tier.wiring}`)}</Table.Td>
                <Table.Td className="number">{tier.domain_devices ? t("network.devices", { count: tier.domain_devices, devices: count(tier.domain_devices) }) : t("network.all")}</Table.Td>
                <Table.Td className="number">{bytesPerSecond(tier.bandwidth_bytes_per_s)}</Table.Td>
                <Table.Td className="number">{seconds(tier.latency_s, 2)}</Table.Td>
                <Table.Td className="number">{isUsed ? t("network.domains", { count: Math.ceil(devices / joined), domains: count(Math.ceil(devices / joined)), devices: count(joined) }) : "–"}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Text size="sm" c="dimmed" mt="xs">
        {t(profile.sequential_tiers ? "network.sequential" : "network.pipelined")}
      </Text>
    </ChartCard>
  );
}
