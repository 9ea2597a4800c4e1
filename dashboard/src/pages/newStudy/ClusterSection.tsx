import { Badge, Group, Select, SimpleGrid, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ComponentProps, type ReactNode } from "react";
import { useTranslation, type TFunction } from "../../i18n";

import type { Schemas } from "../../api/client";
import { hardwareListQuery } from "../../api/queries";
import { byNameOrId } from "../../components/byNameOrId";
import { Drawn } from "../../components/chart/Drawn";
import { PictureOf, type Picture } from "../../components/chart/picture";
import { FactList } from "../../components/FactList";
import { SaveMenu } from "../../components/SaveMenu";
import { tierLines } from "../../components/tiers";
import { Topology } from "../../components/Topology";
import { bytes, bytesPerSecond, count, flopsPerSecond, number } from "../../units/format";
import { readNumber } from "../../units/written";
import { NUMBERS } from "./form";
import { Numeric } from "./Input";
import { Section, type SectionProps } from "./Section";

type Hardware = Schemas["HardwareSummary"];

const FAMILIES = ["ascend", "nvidia", "amd"] as const;
const MAX_DEVICES = 1_000_000;

export function ClusterSection(props: SectionProps) {
  const { form, set, errors } = props;
  const { t } = useTranslation("newStudy");
  const { data } = useQuery(hardwareListQuery());
  const items = data?.items ?? [];
  const hardware = items.find((item) => item.name === form.hardware);
  const devices = readNumber(form.devices, NUMBERS.devices) ?? 0;
  const isCount = devices >= 1 && devices <= MAX_DEVICES;
  const ofFamily = (family: string) => items.filter((item) => item.family === family).map(({ name, title }) => ({ value: name, label: title }));

  return (
    <Section title={t("section.cluster")}>
      <SimpleGrid cols={{ base: 1, xs: 2 }}>
        <Select
          style={{ gridColumn: "1 / -1" }} // its names are long
          label={t("cluster.hardware")}
          placeholder={t("cluster.hardwarePlaceholder")}
          data={FAMILIES.map((family) => ({ group: t(`cluster.family.${family}`), items: ofFamily(family) }))}
          value={form.hardware || null}
          onChange={(name) => set("hardware", name ?? "")}
          error={errors.hardware}
          searchable
          filter={byNameOrId}
          nothingFoundMessage={t("noMatch")}
          required
          renderOption={({ option }) => <HardwareOption hardware={items.find(({ name }) => name === option.value)} />}
        />
        <Numeric
          {...props}
          field="devices"
          label={t("cluster.devices")}
          placeholder="64"
          required
          {...(hardware && isCount && { description: nodes(devices, hardware.devices_per_node, t) })}
        />
      </SimpleGrid>
      {hardware && (
        <>
          <FactList
            facts={[
              [t("cluster.device"), hardware.device],
              [t("cluster.memory"), bytes(hardware.hbm_bytes)],
              [t("cluster.peak"), flopsPerSecond(hardware.matmul_flops_per_s.bf16 ?? hardware.matmul_flops_per_s.fp16)],
              [t("cluster.hbm"), bytesPerSecond(hardware.hbm_bytes_per_s)],
            ]}
          />
          <Network tiers={shown(hardware, form.inter_node)} numDevices={isCount ? devices : hardware.devices_per_node} device={hardware.device} />
          <Numeric
            {...props}
            field="inter_node"
            unit="GB/s"
            label={t("cluster.interNode")}
            description={t("cluster.interNodeHelp", { value: bytesPerSecond(outermost(hardware)) })}
            placeholder={number((outermost(hardware) ?? 0) / 1e9)}
          />
        </>
      )}
    </Section>
  );
}

/** The cluster's drawing, to save as a file. */
function Network(cluster: ComponentProps<typeof Topology>) {
  const { t } = useTranslation("newStudy");
  const [picture, setPicture] = useState<Picture | null>(null);
  return (
    <div>
      <Group justify="space-between" mb={6}>
        <Text size="sm" fw={500}>
          {t("cluster.network")}
        </Text>
        <SaveMenu title={t("cluster.network")} picture={picture} />
      </Group>
      <PictureOf.Provider value={setPicture}>
        <Drawn numbers={() => tierLines(cluster.tiers)}>
          <Topology {...cluster} />
        </Drawn>
      </PictureOf.Provider>
    </div>
  );
}

function outermost(hardware: Hardware): number | undefined {
  return hardware.tiers.at(-1)?.bandwidth_bytes_per_s;
}

/** The tiers as the job will have them: the network between nodes may be the reader's own. */
function shown(hardware: Hardware, interNode: string): Hardware["tiers"] {
  const own = readNumber(interNode, NUMBERS.inter_node) ?? 0;
  return hardware.tiers.map((tier) => (tier.domain_devices === null && own > 0 ? { ...tier, bandwidth_bytes_per_s: own } : tier));
}

function nodes(devices: number, perNode: number, t: TFunction): ReactNode {
  const below = devices - (devices % perNode);
  if (below > 0 && below < devices) {
    return (
      <Text span inherit c="var(--tone-warn)">
        {t("cluster.partNode", { devices: count(devices), perNode, below: count(below), above: count(below + perNode) })}
      </Text>
    );
  }
  const whole = Math.ceil(devices / perNode);
  return t("cluster.nodes", { count: whole, nodes: count(whole), perNode });
}

function HardwareOption({ hardware }: { hardware: Hardware | undefined }) {
  const { t } = useTranslation("newStudy");
  if (!hardware) return null;
  return (
    <Group justify="space-between" wrap="nowrap" flex={1}>
      <Text size="sm">{hardware.title}</Text>
      {hardware.status !== "validated" && (
        <Badge size="xs" variant="default" tt="none" style={{ flexShrink: 0 }}>
          {t(`cluster.status.${hardware.status}`)}
        </Badge>
      )}
    </Group>
  );
}
