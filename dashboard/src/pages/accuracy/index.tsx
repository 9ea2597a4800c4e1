import { Tabs } from "@mantine/core";
import { IconAdjustments, IconChartDots, IconUpload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";

import { accuracyQuery } from "../../api/queries";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { useUrlChoice } from "../../state/url";
import { CalibrationsTab } from "./CalibrationsTab";
import { OwnTab } from "./OwnTab";
import { PublishedTab } from "./PublishedTab";

const TABS = ["published", "own", "calibrations"] as const;
type Tab = (typeof TABS)[number];
const ICONS = { published: IconChartDots, own: IconUpload, calibrations: IconAdjustments };

export function Page() {
  const { t } = useTranslation("accuracy");
  const { data, error } = useQuery(accuracyQuery());
  const [tab, setTab] = useUrlChoice<Tab>("tab", TABS, "published");
  if (!data && !error) return <LoadingPage tiles={6} />;
  return (
    <>
      <PageHeader title={t("title")} subtitle={t("subtitle")} />
      {error && <ErrorState error={error} />}
      {data && (
        <Tabs value={tab} onChange={(value) => setTab((value ?? "published") as Tab)} keepMounted={false}>
          <Tabs.List mb="md" aria-label={t("title")}>
            {TABS.map((name) => {
              const Icon = ICONS[name];
              return (
                <Tabs.Tab key={name} value={name} leftSection={<Icon size={16} stroke={1.6} aria-hidden />}>
                  {t(`tab.${name}`)}
                </Tabs.Tab>
              );
            })}
          </Tabs.List>
          <Tabs.Panel value="published">
            <PublishedTab runs={data.runs} />
          </Tabs.Panel>
          <Tabs.Panel value="own">
            <OwnTab calibrations={data.calibrations} />
          </Tabs.Panel>
          <Tabs.Panel value="calibrations">
            <CalibrationsTab shipped={data.calibrations} />
          </Tabs.Panel>
        </Tabs>
      )}
    </>
  );
}
