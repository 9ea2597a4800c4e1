import { Alert, Button, Tabs, Text } from "@mantine/core";
import { IconBan, IconZoomExclamation } from "@tabler/icons-react";
import { useInfiniteQuery, usePrefetchInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useEffect, useMemo } from "react";
import { useTranslation, withStrings } from "../../i18n";
import { Link, useParams } from "react-router";

import { FINISHED, studyQuery, type Study } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { nameOf } from "../../components/labels/labels";
import { PageHeader } from "../../components/PageHeader";
import { StateBadge } from "../../components/StateBadge";
import { Warnings } from "../../components/Warnings";
import { lazyPart } from "../../components/lazyPart";
import { useUrlChoice } from "../../state/url";
import { ago, count, moment } from "../../units/format";
import { rankingQuery, type RankedPlan } from "./data";
import { Beside } from "./Beside";
import { Headline } from "./Headline";
import { JobTab } from "./JobTab";
import { Labels } from "./Labels";
import { OtherKind } from "./OtherKind";
import { PlansTab } from "./PlansTab";
import { SearchText } from "./Proof";
import { RejectionsTab } from "./RejectionsTab";
import { ResumeButton, StudyActions } from "./StudyActions";
import { useLive, type Live } from "./useLive";

// The library that draws is as large as all else; the table does not wait for it.
const LiveTab = lazyPart(async () => (await import("./LiveTab")).LiveTab);
// What few studies have.
const Infeasible = lazyPart(async () => (await withStrings("rules", () => import("./Infeasible"))).Infeasible);
const TrialsTab = lazyPart(async () => (await withStrings("rules", () => import("./TrialsTab"))).TrialsTab);

const ASKED_MS = 2000; // of a study that is not followed by its stream
const SLOW_MS = 10_000; // the stream tells of changes; asking covers a proxy that holds it back

export function Page() {
  const { t } = useTranslation("study");
  const { studyId = "" } = useParams();
  usePrefetchInfiniteQuery(rankingQuery(studyId)); // not after the study: most have finished
  const { data: study, error, refetch } = useQuery({
    ...studyQuery(studyId),
    refetchInterval: ({ state }) => (state.data && !FINISHED.includes(state.data.state) ? (state.data.kind === "search" ? SLOW_MS : ASKED_MS) : false),
  });
  if (study) return study.kind === "search" ? <StudyPage key={studyId} study={study} /> : <OtherKind key={studyId} study={study} />;
  if (!error) return <LoadingPage />;
  return (
    <>
      <PageHeader title={t("title")} path={[{ label: t("common:nav.studies"), to: "/studies" }]} />
      <ErrorState error={error} action={<Button variant="default" onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />
    </>
  );
}

function StudyPage({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const isFinished = FINISHED.includes(study.state);
  const ranking = useRanking(study.id, isFinished);
  const live = useLive(study);
  const best = ranking.plans?.[0];
  return (
    <>
      <PageHeader
        title={nameOf(study)}
        path={[{ label: t("common:nav.studies"), to: "/studies" }]}
        badges={<StateBadge state={study.state} />}
        subtitle={<Subtitle study={study} />}
        actions={<StudyActions study={study} isComparable={best !== undefined} />}
      />
      <Labels study={study} />
      {study.state === "failed" && (
        <ErrorState title={t("failed.title")} detail={study.error ?? t("failed.unknown")} action={<ResumeButton study={study} />} />
      )}
      {study.state === "cancelled" && (
        <Alert color="orange" variant="light" icon={<IconBan size={18} />} title={t("cancelled.title")} mb="md" c="inherit">
          <p style={{ marginTop: 0 }}>{t(best ? "cancelled.kept" : study.progress ? "cancelled.begun" : "cancelled.notBegun")}</p>
          <ResumeButton study={study} />
        </Alert>
      )}
      {ranking.error && <ErrorState error={ranking.error} action={<Button variant="default" onClick={ranking.again}>{t("common:error.retry")}</Button>} />}
      {isFinished && !ranking.plans && !ranking.error ? <LoadingPage tiles={6} /> : <Content study={study} plans={ranking.plans ?? []} isComplete={ranking.isComplete} live={isFinished ? null : live} />}
    </>
  );
}

/** The plans that have been loaded; more come in behind them. */
function useRanking(studyId: string, isFinished: boolean) {
  const queries = useQueryClient();
  useEffect(() => {
    // Asked for too early, or what it had found before it was resumed.
    if (!isFinished) for (const key of ["ranking", "rejections", "trials"]) void queries.resetQueries({ queryKey: [key, studyId] });
  }, [queries, studyId, isFinished]);
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery({ ...rankingQuery(studyId), enabled: isFinished });
  useEffect(() => {
    if (hasNextPage && !isFetching && !error) void fetchNextPage();
  }, [hasNextPage, isFetching, error, fetchNextPage]);
  const plans = useMemo(() => data?.pages.flatMap(({ items }) => items), [data]);
  return { plans: isFinished ? plans : undefined, isComplete: !hasNextPage, error, again: () => void refetch() };
}

function Subtitle({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const training = study.job.training as { seq_length?: number; global_batch_size?: number; precision?: string } | undefined;
  return (
    <>
      {study.name && `${study.model} · `}
      {t("subtitle", {
        devices: count(study.num_devices),
        hardware: study.hardware,
        seq: count(training?.seq_length),
        batch: count(training?.global_batch_size),
        precision: training?.precision,
        sampler: t(`common:sampler.${study.sampler}`, { defaultValue: study.sampler }),
      })}{" "}
      · <span title={moment(study.created_at_s)}>{ago(study.created_at_s)}</span> · <code>{study.id}</code>
      <CopyButton text={study.id} />
    </>
  );
}

interface ContentProps {
  study: Study;
  plans: readonly RankedPlan[];
  isComplete: boolean;
  live: Live | null;
}

function Content({ study, plans, isComplete, live }: ContentProps) {
  const { t } = useTranslation("study");
  const { result } = study;
  const best = plans.find(({ plan_id }) => plan_id === result?.recommended?.plan_id) ?? plans[0];
  const hasTrials = live === null && (study.sampler !== "exhaustive" || Boolean(result?.refinement));
  const tabs = [
    ...(live ? ["live"] : []),
    ...(best ? ["plans"] : []),
    ...(result ? ["rejections"] : []),
    ...(hasTrials ? ["trials"] : []),
    "job",
  ];
  const [wanted, setTab] = useUrlChoice("tab", ["live", "plans", "rejections", "trials", "job"], "plans");
  const tab = tabs.includes(wanted) ? wanted : tabs[0];
  const isWithoutPlan = live === null && result !== null && !best && study.state === "completed";
  return (
    <>
      {best && result && <Headline study={study} result={result} best={best} plans={plans} />}
      {isWithoutPlan && (
        <>
          <EmptyState
            icon={IconZoomExclamation}
            title={t("noPlan.title")}
            text={result.infeasible ? undefined : (result.nearest ?? t("noPlan.text"))}
            action={
              <Button component={Link} to={`/studies/new?from=${study.id}`}>
                {t("noPlan.again")}
              </Button>
            }
          />
          <Text size="sm" c="dimmed" ta="center" mb="lg">
            <SearchText result={result} />
          </Text>
          {result.infeasible && (
            <Suspense fallback={<LoadingPage tiles={0} />}>
              <Infeasible study={study} infeasible={result.infeasible} />
            </Suspense>
          )}
          <Beside study={study} result={result} />
        </>
      )}
      {tab !== "job" && <Warnings warnings={study.warnings} mb="md" />}
      <Tabs value={tab ?? "job"} onChange={(name) => setTab((name ?? "plans") as typeof wanted)} keepMounted={false}>
        <Tabs.List mb="md" style={{ overflowX: "auto", flexWrap: "nowrap", overflowY: "hidden" }}>
          {tabs.map((name) => (
            <Tabs.Tab key={name} value={name}>
              {t(`tab.${name}`)} {name === "plans" && <span className="number">({count(plans.length)})</span>}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {live && (
          <Tabs.Panel value="live">
            <Suspense fallback={<LoadingPage />}>
              <LiveTab study={study} live={live} />
            </Suspense>
          </Tabs.Panel>
        )}
        {best && (
          <Tabs.Panel value="plans">
            <PlansTab study={study} plans={plans} best={best} isComplete={isComplete} baseline={result?.baseline ?? null} />
          </Tabs.Panel>
        )}
        {result && (
          <Tabs.Panel value="rejections">
            <RejectionsTab study={study} counts={result.counts} />
          </Tabs.Panel>
        )}
        {hasTrials && (
          <Tabs.Panel value="trials">
            <Suspense fallback={<LoadingPage tiles={0} />}>
              <TrialsTab study={study} />
            </Suspense>
          </Tabs.Panel>
        )}
        <Tabs.Panel value="job">
          <JobTab study={study} result={result} />
        </Tabs.Panel>
      </Tabs>
    </>
  );
}
