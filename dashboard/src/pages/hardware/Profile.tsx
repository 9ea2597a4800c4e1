import { Button, Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";
import { Link, useParams } from "react-router";

import type { Schemas } from "../../api/client";
import { hardwareQuery } from "../../api/queries";
import { ErrorState } from "../../components/ErrorState";
import { FactList } from "../../components/FactList";
import { LoadingPage } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { StatTile } from "../../components/StatTile";
import { tierName } from "../../components/tiers";
import { bytes, bytesPerSecond, count, flopsPerSecond, number } from "../../units/format";
import { Collectives } from "./Collectives";
import { peak } from "./columns";
import { Evidence } from "./Evidence";
import { Network } from "./Network";
import { Numbers } from "./Numbers";
import { StatusBadge } from "./StatusBadge";

type Profile = Schemas["HardwareDetails"];

export function Page() {
  const { t } = useTranslation("hardware");
  const { name = "" } = useParams();
  const { data: profile, error } = useQuery(hardwareQuery(name));
  const path = [{ label: t("title"), to: "/hardware" }];
  if (error) {
    return (
      <>
        <PageHeader title={name} path={path} />
        <ErrorState error={error} />
      </>
    );
  }
  if (!profile) return <LoadingPage />;
  return (
    <>
      <PageHeader
        title={profile.title}
        path={path}
        subtitle={<code>{name}</code>}
        badges={<StatusBadge status={profile.status} />}
        actions={
          <Button component={Link} to={`/studies/new?hardware=${encodeURIComponent(name)}`} leftSection={<IconPlayerPlay size={16} />}>
            {t("use")}
          </Button>
        }
      />
      <Stack gap="md">
        <Tiles profile={profile} />
        {profile.notes.length > 0 && (
          <Card component="section" aria-label={t("notes")}>
            <Title order={2}>{t("notes")}</Title>
            {profile.notes.map((note) => (
              <Text key={note} size="sm" mt={6} lang="en">
                {note}
              </Text>
            ))}
          </Card>
        )}
        <Network profile={profile} />
        <Evidence name={name} />
        {profile.collectives.length > 0 && <Collectives collectives={profile.collectives} />}
        <Numbers profile={profile} />
      </Stack>
    </>
  );
}

function Tiles({ profile }: { profile: Profile }) {
  const { t } = useTranslation("hardware");
  const outer = profile.tiers.at(-1);
  const rates = Object.entries(profile.matmul_flops_per_s).map(([precision, rate]) => [precision.toUpperCase(), flopsPerSecond(rate)] as const);
  return (
    <>
      <SimpleGrid cols={{ base: 2, md: 4 }} spacing="sm">
        <StatTile label={t("column.peak")} value={flopsPerSecond(peak(profile))} help={t("help.peak")} note={profile.device} />
        <StatTile label={t("column.memory")} value={bytes(profile.hbm_bytes)} note={t("tile.usable", { value: bytes(profile.usable_hbm_bytes) })} />
        <StatTile label={t("column.bandwidth")} value={bytesPerSecond(profile.hbm_bytes_per_s)} note={t("tile.host", { value: bytesPerSecond(profile.host_link_bytes_per_s) })} />
        {outer && (
          <StatTile
            label={t("column.outer")}
            value={bytesPerSecond(outer.bandwidth_bytes_per_s)}
            help={t("help.bandwidth")}
            note={t("tile.inner", { name: tierName(profile.tiers[0]?.name ?? ""), value: bytesPerSecond(profile.tiers[0]?.bandwidth_bytes_per_s) })}
          />
        )}
      </SimpleGrid>
      <Card component="section" aria-label={t("rates")}>
        <Group gap="xs" mb={6}>
          <Title order={2}>{t("rates")}</Title>
        </Group>
        <FactList
          facts={[
            ...rates,
            [t("field.vector_flops_per_s"), flopsPerSecond(profile.vector_flops_per_s)],
            [t("field.num_matmul_cores"), count(profile.num_matmul_cores)],
            ...(profile.power_w ? [[t("field.power_w"), `${number(profile.power_w)} W`] as const] : []),
          ]}
        />
      </Card>
    </>
  );
}
