import { Anchor, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { Schemas } from "../../api/client";
import type { Column } from "../../components/DataTable";
import { tierName } from "../../components/tiers";
import { bytes, bytesPerSecond, count, flopsPerSecond } from "../../units/format";
import { StatusBadge } from "./StatusBadge";

export type Hardware = Schemas["HardwareSummary"];

/** The rate that training counts against: BF16, or FP16 where there is none. */
export function peak(hardware: Hardware): number | undefined {
  return hardware.matmul_flops_per_s.bf16 ?? hardware.matmul_flops_per_s.fp16;
}

export function useHardwareColumns(): Column<Hardware>[] {
  const { t, i18n } = useTranslation("hardware");
  return useMemo(
    (): Column<Hardware>[] => [
      {
        key: "hardware",
        header: t("column.hardware"),
        fixed: true,
        value: ({ title }) => title,
        cell: ({ name, title }) => (
          <Stack gap={0} miw={200} maw={600}>
            <Anchor component={Link} to={`/hardware/${name}`} fw={550} c="inherit" lineClamp={2}>
              {title}
            </Anchor>
            <Text size="xs" c="dimmed" ff="monospace">
              {name}
            </Text>
          </Stack>
        ),
      },
      { key: "status", header: t("column.status"), value: ({ status }) => status, cell: ({ status }) => <StatusBadge status={status} /> },
      { key: "device", header: t("column.device"), value: ({ device }) => device, cell: ({ device }) => device },
      { key: "peak", header: t("column.peak"), help: t("help.peak"), numeric: true, value: peak, cell: (row) => flopsPerSecond(peak(row)) },
      {
        key: "fp8",
        header: t("column.fp8"),
        numeric: true,
        shown: false,
        value: (row) => row.matmul_flops_per_s.fp8,
        cell: (row) => flopsPerSecond(row.matmul_flops_per_s.fp8),
      },
      { key: "memory", header: t("column.memory"), numeric: true, value: (row) => row.hbm_bytes, cell: (row) => bytes(row.hbm_bytes) },
      { key: "bandwidth", header: t("column.bandwidth"), numeric: true, value: (row) => row.hbm_bytes_per_s, cell: (row) => bytesPerSecond(row.hbm_bytes_per_s) },
      { key: "node", header: t("column.node"), numeric: true, value: (row) => row.devices_per_node, cell: (row) => count(row.devices_per_node) },
      {
        key: "inner",
        header: t("column.inner"),
        help: t("help.bandwidth"),
        numeric: true,
        value: (row) => row.tiers[0]?.bandwidth_bytes_per_s,
        cell: (row) => <TierCell tier={row.tiers[0]} />,
      },
      {
        key: "outer",
        header: t("column.outer"),
        help: t("help.bandwidth"),
        numeric: true,
        value: (row) => row.tiers.at(-1)?.bandwidth_bytes_per_s,
        cell: (row) => <TierCell tier={row.tiers.at(-1)} />,
      },
    ],
    [t, i18n.language],
  );
}

function TierCell({ tier }: { tier: Hardware["tiers"][number] | undefined }) {
  if (!tier) return "–";
  return (
    <>
      {bytesPerSecond(tier.bandwidth_bytes_per_s)}
      <Text size="xs" c="dimmed">
        {tierName(tier.name)}
      </Text>
    </>
  );
}
