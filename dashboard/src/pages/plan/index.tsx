import { ActionIcon, Badge, Button, Group, Menu, SimpleGrid, Stack, Tabs, Tooltip } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconChevronLeft, IconChevronRight, IconDownload, IconZoomQuestion } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useState } from "react";
import { useTranslation } from "../../i18n";
import { Link, useParams, useSearchParams } from "react-router";

import { toApiError } from "../../api/problem";
import { plansQuery, studyQuery, type Plan, type Study } from "../../api/queries";
import { belowLimit, fitLimit } from "../../components/fitLimit";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage, LoadingRows } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { saveFile } from "../../components/saveFile";
import { StatTile } from "../../components/StatTile";
import { Warnings } from "../../components/Warnings";
import { lazyPart } from "../../components/lazyPart";
import { useUrlChange, useUrlChoice } from "../../state/url";
import { bytes, compact, count, percent, seconds, tokensPerSecond } from "../../units/format";
import { intervalText, stepText, withStep } from "../../units/interval";
import { FIELDS as OF_THE_SITE } from "./delivery/site";
import { analysisQuery, loadTrace, timelineQuery } from "./data";
import { OverviewTab } from "./OverviewTab";
import { Why } from "./Why";

// Loaded when they are shown: a page stays below 500 kB.
const TimelineTab = lazyPart(async () => (await import("./timeline/TimelineTab")).TimelineTab);
const MemoryTab = lazyPart(async () => (await import("./MemoryTab")).MemoryTab);
const NetworkTab = lazyPart(async () => (await import("./NetworkTab")).NetworkTab);
const WhatIfTab = lazyPart(async () => (await import("./WhatIfTab")).WhatIfTab);
const LaunchTab = lazyPart(async () => (await import("./LaunchTab")).LaunchTab);
const DeliveryTab = lazyPart(async () => (await import("./delivery/DeliveryTab")).DeliveryTab);

const TABS = ["overview", "timeline", "memory", "network", "changes", "delivery", "launch"] as const;
type Tab = (typeof TABS)[number];
/** Kept in the address for the tab that they belong to only. */
const OF_THE_MAP = ["by", "device"] as const;
const OF_THE_TIMELINE = ["window", "task", "ranks", "streams", "kind", "follow"];

export function Page() {
  const { t } = useTranslation("plan");
  const { studyId = "", planId = "" } = useParams();
  const study = useQuery(studyQuery(studyId));
  const plans = useQuery(plansQuery(studyId));
  const error = study.error ?? plans.error;
  if (error) {
    const again = () => void Promise.all([study.refetch(), plans.refetch()]);
    return (
      <>
        <PageHeader title={t("titleOf", { plan: planId })} path={[{ label: t("common:nav.studies"), to: "/studies" }]} />
        <ErrorState error={error} action={<Button variant="default" onClick={again}>{t("common:error.retry")}</Button>} />
      </>
    );
  }
  if (!study.data || !plans.data) return <LoadingPage tiles={6} />;
  const plan = plans.data.find(({ plan_id }) => plan_id === planId);
  if (!plan) return <NoPlan study={study.data} planId={planId} />;
  return <PlanPage key={planId} study={study.data} plans={plans.data} plan={plan} />;
}

function NoPlan({ study, planId }: { study: Study; planId: string }) {
  const { t } = useTranslation("plan");
  return (
    <>
      <PageHeader title={t("titleOf", { plan: planId })} path={pathOf(study, t("common:nav.studies"))} />
      <EmptyState
        icon={IconZoomQuestion}
        title={t("noPlan.title")}
        text={t(study.result ? "noPlan.unknown" : "noPlan.unfinished", { plan: planId })}
        action={
          <Button component={Link} to={`/studies/${study.id}`} variant="default">
            {t("noPlan.back")}
          </Button>
        }
      />
    </>
  );
}

const pathOf = (study: Study, studies: string) => [
  { label: studies, to: "/studies" },
  { label: study.name || study.model, to: `/studies/${study.id}` },
];

function PlanPage({ study, plans, plan }: { study: Study; plans: readonly Plan[]; plan: Plan }) {
  const { t } = useTranslation("plan");
  const [tab] = useUrlChoice<Tab>("tab", TABS, "overview");
  const change = useUrlChange();
  const show = (next: string | null) =>
    change({
      tab: next === "overview" ? null : next,
      ...(next !== "timeline" && Object.fromEntries(OF_THE_TIMELINE.map((name) => [name, null]))),
      ...(next !== "network" && Object.fromEntries(OF_THE_MAP.map((name) => [name, null]))),
      ...(next !== "delivery" && Object.fromEntries(OF_THE_SITE.map((name) => [name, null]))),
      ...(next !== "launch" && { framework: null }),
      ...(next !== "changes" && { slid: null }),
    });
  return (
    <>
      <PageHeader
        title={t("title", { rank: plan.rank })}
        path={pathOf(study, t("common:nav.studies"))}
        badges={<Fit plan={plan} />}
        subtitle={t("subtitle", { model: study.model, devices: count(study.num_devices), hardware: study.hardware, plan: plan.plan_id })}
        actions={
          <>
            <Neighbours plans={plans} plan={plan} />
            <Downloads studyId={study.id} plan={plan} />
          </>
        }
      />
      <Stack gap="md">
        <Why plan={plan} plans={plans} study={study} />
        <Tiles plan={plan} />
        <Warnings warnings={study.warnings} />
        <Tabs value={tab} onChange={show} keepMounted={false}>
          <Tabs.List mb="md" style={{ overflowX: "auto", flexWrap: "nowrap", overflowY: "hidden" }}>
            {TABS.map((name) => (
              <Tabs.Tab key={name} value={name}>
                {t(`tab.${name}`)}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value={tab}>
            <Suspense fallback={<LoadingRows />}>
              {tab === "overview" && <OverviewTab plan={plan} study={study} />}
              {tab === "timeline" && <TimelineTab studyId={study.id} plan={plan} />}
              {tab === "memory" && <MemoryTab studyId={study.id} plan={plan} />}
              {tab === "network" && <NetworkTab studyId={study.id} plan={plan} study={study} />}
              {tab === "changes" && <WhatIfTab study={study} plan={plan} />}
              {tab === "delivery" && <DeliveryTab study={study} plan={plan} />}
              {tab === "launch" && <LaunchTab studyId={study.id} plan={plan} />}
            </Suspense>
          </Tabs.Panel>
        </Tabs>
      </Stack>
    </>
  );
}

function Fit({ plan }: { plan: Plan }) {
  const { t } = useTranslation("plan");
  return (
    <Badge variant="outline" tt="none" fw={500} style={{ color: `var(--tone-${plan.estimate.fits ? "good" : "bad"})`, borderColor: "currentColor" }}>
      {t(plan.estimate.fits ? "fits" : "tooLarge")}
    </Badge>
  );
}

function Tiles({ plan: { estimate } }: { plan: Plan }) {
  const { t } = useTranslation("plan");
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
      <StatTile
        label={t("tile.step")}
        value={seconds(estimate.step_time_s)}
        note={intervalText(t, withStep(estimate, estimate.step_time_s), stepText)}
      />
      <StatTile
        label={t("tile.throughput")}
        value={tokensPerSecond(estimate.tokens_per_s)}
        note={
          <>
            <div>{t("tile.perDevice", { rate: tokensPerSecond(estimate.tokens_per_s_per_device) })}</div>
            {intervalText(t, withStep(estimate, estimate.tokens_per_s, "shrinks"), compact)}
          </>
        }
      />
      <StatTile label={t("tile.mfu")} help={estimate.mfu_convention} value={percent(estimate.mfu_fraction)} note={t("tile.mfuNote")} />
      <StatTile
        label={t("tile.memory")}
        value={bytes(estimate.peak_memory_bytes)}
        help={t("tile.memoryHelp", { usable: bytes(estimate.memory_limit_bytes) })}
        note={t("memory.limit", { bytes: bytes(fitLimit(estimate)) })}
      />
      <StatTile
        label={t("tile.headroom")}
        value={bytes(belowLimit(estimate))}
        note={estimate.fits_probability == null ? undefined : t("tile.sure", { sure: percent(estimate.fits_probability) })}
        {...(!estimate.fits && { tone: "bad" as const })}
      />
    </SimpleGrid>
  );
}

/** To the plans beside this one, with the same tab open. */
function Neighbours({ plans, plan }: { plans: readonly Plan[]; plan: Plan }) {
  const { t } = useTranslation("plan");
  const [params] = useSearchParams();
  const place = plans.indexOf(plan);
  const tab = params.get("tab");
  const step = (other: Plan | undefined, label: string, Icon: typeof IconChevronLeft) => (
    <Tooltip label={label}>
      {other ? (
        <ActionIcon component={Link} to={`../${other.plan_id}${tab ? `?tab=${tab}` : ""}`} relative="path" variant="default" size={36} aria-label={label}>
          <Icon size={18} stroke={1.6} />
        </ActionIcon>
      ) : (
        <ActionIcon variant="default" size={36} aria-label={label} disabled>
          <Icon size={18} stroke={1.6} />
        </ActionIcon>
      )}
    </Tooltip>
  );
  return (
    <Group gap={4}>
      {step(plans[place - 1], t("previous"), IconChevronLeft)}
      {step(plans[place + 1], t("next"), IconChevronRight)}
    </Group>
  );
}

function Downloads({ studyId, plan }: { studyId: string; plan: Plan }) {
  const { t } = useTranslation("plan");
  const queries = useQueryClient();
  const [isLoading, setLoading] = useState(false);
  const id = plan.plan_id;

  async function save(name: string, load: () => Promise<string>) {
    setLoading(true);
    try {
      saveFile(name, "application/json", await load());
    } catch (cause) {
      const { problem } = toApiError(cause);
      notifications.show({ color: "red", title: t("download.failed"), message: problem.detail || t("common:error.unreachable") });
    } finally {
      setLoading(false);
    }
  }
  const text = (value: unknown) => JSON.stringify(value, null, 1);
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" leftSection={<IconDownload size={16} />} loading={isLoading}>
          {t("download.title")}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => void save(`plan-${id}.json`, () => Promise.resolve(text(plan)))}>{t("download.plan")}</Menu.Item>
        <Menu.Item onClick={() => void save(`plan-${id}.analysis.json`, async () => text(await queries.fetchQuery(analysisQuery(studyId, id))))}>
          {t("download.analysis")}
        </Menu.Item>
        <Menu.Item onClick={() => void save(`plan-${id}.timeline.json`, async () => JSON.stringify(await queries.fetchQuery(timelineQuery(studyId, id))))}>
          {t("download.timeline")}
        </Menu.Item>
        {/* MindStudio Insight and Perfetto both look for a file of this name. */}
        <Menu.Item onClick={() => void save("trace_view.json", () => loadTrace(studyId, id))}>{t("download.trace")}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
