import { Group, SegmentedControl, Select } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { hardwareListQuery } from "../../api/queries";
import { DataTable } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { hasWords, SearchField } from "../../components/SearchField";
import { tierName } from "../../components/tiers";
import { useUrlChoice, useUrlText } from "../../state/url";
import { useHardwareColumns, type Hardware } from "./columns";
import { STATUSES } from "./StatusBadge";

const FAMILIES = ["all", "ascend", "nvidia", "amd"] as const;
const NO_PROFILES: readonly Hardware[] = [];

/** Ascend first; names within a family stay in order. */
function rank({ family }: Hardware): number {
  return (FAMILIES as readonly string[]).indexOf(family);
}

function wordsOf({ name, title, device, tiers }: Hardware): string {
  return [name, title, device, ...tiers.map((tier) => tierName(tier.name))].join(" ");
}

export function Page() {
  const { t } = useTranslation("hardware");
  const { data, error } = useQuery(hardwareListQuery());
  const [search] = useUrlText("q");
  const [family, setFamily] = useUrlChoice("family", FAMILIES, "all");
  const [status, setStatus] = useUrlText("status");
  const columns = useHardwareColumns();
  const profiles = useMemo(() => [...(data?.items ?? NO_PROFILES)].sort((a, b) => rank(a) - rank(b)), [data]);
  const shown = useMemo(
    () =>
      profiles.filter(
        (profile) =>
          hasWords(wordsOf(profile), search) && (family === "all" || profile.family === family) && (!status || profile.status === status),
      ),
    [profiles, search, family, status],
  );

  return (
    <>
      <PageHeader title={t("title")} subtitle={t("subtitle")} />
      {error && <ErrorState error={error} />}
      {!data && !error && <LoadingRows />}
      {data && (
        <DataTable
          label={t("title")}
          rows={shown}
          columns={columns}
          rowKey={(profile) => profile.name}
          rowLink={(profile) => `/hardware/${profile.name}`}
          toolbar={
            <Group gap="xs">
              <SearchField label={t("search")} />
              <SegmentedControl
                value={family}
                onChange={setFamily}
                aria-label={t("family.label")}
                data={FAMILIES.map((value) => ({ value, label: t(`family.${value}`) }))}
              />
              <Select
                data={STATUSES.map((value) => ({ value, label: t(`status.${value}`) }))}
                value={status || null}
                onChange={(value) => setStatus(value ?? "")}
                placeholder={t("column.status")}
                aria-label={t("column.status")}
                clearable
                style={{ flex: "0 1 170px" }}
              />
            </Group>
          }
          empty={<EmptyState icon={IconSearch} title={t("noMatch.title")} text={t("noMatch.text", { count: profiles.length })} />}
        />
      )}
    </>
  );
}
