import { Anchor, Card, Group, SimpleGrid, Stack, Text, ThemeIcon } from "@mantine/core";
import { IconAlertTriangle, IconRosetteDiscountCheck } from "@tabler/icons-react";
import { lazy, Suspense } from "react";
import { marks, useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { Study } from "../../api/queries";
import { belowLimit, fitLimit } from "../../components/fitLimit";
import { StatTile } from "../../components/StatTile";
import { strategyText } from "../../components/strategy";
import { bytes, compact, duration, percent, seconds, signedPercent, tokensPerSecond } from "../../units/format";
import { intervalText, stepText, unbroken, withStep } from "../../units/interval";
import { Beside } from "./Beside";
import type { RankedPlan, Result } from "./data";
import { ProofText, SearchText } from "./Proof";

const Refinement = lazy(async () => ({ default: (await import("./Refinement")).Refinement })); // few studies have one

interface Props {
  study: Study;
  result: Result;
  best: RankedPlan;
  plans: readonly RankedPlan[];
}

/** The answer: the best plan, what it gains, and whether anything can beat it. */
export function Headline({ study, result, best, plans }: Props) {
  const { t } = useTranslation("study");
  const { proof } = result;
  const proved = plans.find(({ plan_id }) => plan_id === proof.plan_id);
  const Icon = proof.proved_best ? IconRosetteDiscountCheck : IconAlertTriangle;
  const tone = proof.proved_best ? "good" : "warn";
  const isAnother = proof.proved_best && proved !== undefined && proved !== best; // the proof is about the fastest
  return (
    <Stack gap="sm" mb="md">
      <Card>
        <Text size="sm" c="dimmed">
          {t("best.title", { objective: t(`common:objective.${study.objective}`, { defaultValue: study.objective }) })}
        </Text>
        <Anchor component={Link} to={`plans/${best.plan_id}`} fz="lg" fw={600} style={{ overflowWrap: "anywhere" }}>
          {strategyText(best.strategy)}
        </Anchor>
        {result.recommended?.why && (
          <Text size="sm" mt={4}>
            {t("best.why", { rank: best.rank, why: result.recommended.why })}
          </Text>
        )}
        <Group gap={8} wrap="nowrap" align="flex-start" mt={8}>
          <ThemeIcon variant="transparent" size={20} c={`var(--tone-${tone})`} aria-hidden>
            <Icon size={18} stroke={1.7} />
          </ThemeIcon>
          <Text size="sm">
            <Text span inherit fw={600} c={`var(--tone-${tone})`}>
              {isAnother ? t("proof.isAbout", { rank: proved.rank }) : t(proof.proved_best ? "proof.isProved" : "proof.isNotProved")}
            </Text>{" "}
            <ProofText result={result} />
          </Text>
        </Group>
        <Tie result={result} plans={plans} />
        <Text size="sm" c="dimmed" mt={4}>
          <SearchText result={result} />
        </Text>
      </Card>
      <Tiles study={study} result={result} best={best} />
      {result.refinement && (
        <Suspense>
          <Refinement result={result} />
        </Suspense>
      )}
      <Beside study={study} result={result} />
    </Stack>
  );
}

/** Which plans cannot be told from the first. */
function Tie({ result, plans }: Pick<Props, "result" | "plans">) {
  const { t } = useTranslation("study");
  const tied = plans.filter(({ rank_group }) => rank_group === 1);
  const fastest = tied.find((plan) => plan.fastest);
  const error = result.paired_error?.fraction;
  if (tied.length < 2 || !fastest || error == null) return null;
  const times = tied.map(({ estimate }) => estimate.step_time_s);
  const spread = percent(Math.max(...times) / Math.min(...times) - 1);
  return (
    <Text size="sm" mt={4}>
      {t("best.tie", { last: tied.length, spread, error: percent(error), fastest: fastest.rank })}
    </Text>
  );
}

function Tiles({ study, result: { baseline }, best: { estimate } }: Omit<Props, "plans">) {
  const { t } = useTranslation("study");
  const tokens = trainTokens(study);
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
      <StatTile
        label={t("tile.step")}
        help={t("tile.stepHelp")}
        value={seconds(estimate.step_time_s)}
        note={intervalText(t, withStep(estimate, estimate.step_time_s), stepText)}
      />
      <Gain baseline={baseline} />
      <StatTile
        label={t("tile.throughput")}
        value={<WithUnit text={tokensPerSecond(estimate.tokens_per_s)} />}
        note={
          <>
            <div>{t("tile.perDevice", { rate: tokensPerSecond(estimate.tokens_per_s_per_device) })}</div>
            {intervalText(t, withStep(estimate, estimate.tokens_per_s, "shrinks"), compact)}
          </>
        }
      />
      <StatTile label={t("tile.mfu")} help={t("tile.mfuHelp")} value={percent(estimate.mfu_fraction)} />
      <StatTile
        label={t("tile.memory")}
        value={bytes(estimate.peak_memory_bytes)}
        note={t(estimate.fits_probability == null ? "tile.headroom" : "tile.headroomSure", {
          free: unbroken(bytes(belowLimit(estimate))),
          limit: unbroken(bytes(fitLimit(estimate))),
          sure: percent(estimate.fits_probability),
        })}
      />
      {tokens !== null && (
        <StatTile
          label={t("tile.training")}
          value={duration(tokens / estimate.tokens_per_s)}
          note={
            <>
              <div>{t("tile.trainingNote", { tokens: compact(tokens) })}</div>
              {intervalText(t, withStep(estimate, tokens / estimate.tokens_per_s), duration)}
            </>
          }
        />
      )}
    </SimpleGrid>
  );
}

function trainTokens({ job }: Pick<Study, "job">): number | null {
  const tokens = (job.training as { train_tokens?: unknown } | undefined)?.train_tokens;
  return typeof tokens === "number" ? tokens : null;
}

/** The unit smaller than the number: a narrow tile holds both. */
function WithUnit({ text }: { text: string }) {
  const [number, unit] = text.split(/ (?=\S+$)/);
  return (
    <>
      {number} {unit && <Text span fz="sm" fw={500}>{unit}</Text>}
    </>
  );
}

function Gain({ baseline }: { baseline: Result["baseline"] }) {
  const { t } = useTranslation("study");
  const step = typeof baseline?.estimate.step_time_s === "number" ? baseline.estimate.step_time_s : null;
  if (!baseline) return <StatTile label={t("gain.title")} value="–" note={t("gain.none")} />;
  const strategy = strategyText(baseline.strategy);
  const { speedup_fraction: gain, error_fraction: error } = baseline;
  const isTie = gain != null && error != null && Math.max(1 + gain, 1 / (1 + gain)) < 1 + error;
  const against = t(`gain.against.${baseline.source}`, { time: seconds(step) });
  const doubt = gain == null || error == null ? [] : [t(isTie ? "gain.tie" : "gain.error", { error: percent(error) })];
  return (
    <StatTile
      label={t("gain.title")}
      help={t(`gain.help.${baseline.source}`, { strategy })}
      value={gain == null ? "–" : signedPercent(gain)}
      note={baseline.violations.length ? t("gain.illegal") : [...doubt, against].join(marks().semicolon)}
      {...(gain != null && gain > 0 && !isTie && { tone: "good" as const })}
    />
  );
}
