import { ActionIcon, Anchor, Badge, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconChevronDown, IconChevronRight, IconPin, IconPinFilled } from "@tabler/icons-react";
import { useMemo } from "react";
import { bracketed, useTranslation } from "../../i18n";
import { Link } from "react-router";

import { exposedCommunication } from "../../components/communication";
import type { Column } from "../../components/DataTable";
import { fitLimit } from "../../components/fitLimit";
import { changeText, recomputeText, strategyParts, strategyText } from "../../components/strategy";
import { bytes, count, percent, seconds, secondsRange, signedPercent, tokensPerSecond } from "../../units/format";
import type { RankedPlan } from "./data";
import classes from "./Study.module.css";

/** A plan, or below it a variant of the same structure. */
export interface PlanRow {
  key: string;
  plan: RankedPlan;
  variant: RankedPlan["variants"][number] | null;
  step: number;
  memory: number;
}

export function rowsOf(plans: readonly RankedPlan[]): PlanRow[] {
  return plans.map((plan) => ({ key: plan.plan_id, plan, variant: null, step: plan.estimate.step_time_s, memory: plan.estimate.peak_memory_bytes }));
}

export function variantsOf({ plan }: PlanRow): PlanRow[] {
  return plan.variants.map((variant) => ({ key: variant.plan_id, plan, variant, step: variant.step_time_s, memory: variant.peak_memory_bytes }));
}

interface Controls {
  best: RankedPlan | undefined;
  pins: readonly string[];
  onPin: (key: string) => void;
  open: readonly string[];
  onOpen: (key: string) => void;
}

export function usePlanColumns({ best, pins, onPin, open, onOpen }: Controls): Column<PlanRow>[] {
  const { t, i18n } = useTranslation("study");
  return useMemo((): Column<PlanRow>[] => {
    const limitOf = ({ plan }: PlanRow) => fitLimit(plan.estimate);
    const headroom = (row: PlanRow) => limitOf(row) - row.memory;
    /** Of the plan itself: variants do not tell it. */
    const own =
      <Value,>(value: (plan: RankedPlan) => Value) =>
      ({ plan, variant }: PlanRow) =>
        variant ? null : value(plan);
    const slower = ({ step }: PlanRow) => (best ? step / best.estimate.step_time_s - 1 : null);
    const degree = (name: "tp" | "pp" | "vpp" | "cp" | "ep" | "etp" | "dp" | "micro_batch_size" | "num_microbatches" | "zero_stage"): Column<PlanRow> => ({
      key: name,
      header: t(`dimension.${name}`, { defaultValue: t(`common:strategy.${name}`) }),
      help: t(`common:strategy.${name}`),
      numeric: true,
      shown: false,
      value: own(({ strategy }) => strategy[name]),
      cell: own(({ strategy }) => count(strategy[name])),
    });
    return [
      { key: "rank", header: t("column.rank"), fixed: true, numeric: true, value: own(({ rank }) => rank), cell: own(({ rank }) => rank) },
      {
        key: "pin",
        header: t("column.pin"),
        fixed: true,
        hiddenHeader: true,
        cell: (row) => !row.variant && <Pin row={row} isPinned={pins.includes(row.key)} onPin={onPin} />,
      },
      {
        key: "plan",
        header: t("column.plan"),
        fixed: true,
        value: ({ plan, variant }) => variant?.change ?? strategyText(plan.strategy),
        cell: (row) => <PlanName row={row} isOpen={open.includes(row.key)} onOpen={onOpen} />,
      },
      {
        key: "step",
        csv: { step_time_s: ({ step }) => step, step_time_low_s: own(({ estimate }) => estimate.step_time_low_s), step_time_high_s: own(({ estimate }) => estimate.step_time_high_s) },
        header: t("column.step"),
        help: t("tile.stepHelp"),
        numeric: true,
        value: ({ step }) => step,
        cell: ({ step, plan: { estimate }, variant }) => (
          <>
            {seconds(step)}
            {!variant && estimate.step_time_low_s != null && (
              <Text size="xs" c="dimmed" className="number">
                {secondsRange(estimate.step_time_low_s, estimate.step_time_high_s)}
              </Text>
            )}
          </>
        ),
      },
      {
        key: "memory",
        csv: "peak_memory_bytes",
        header: t("column.memory"),
        help: t("column.memoryHelp"),
        numeric: true,
        value: ({ memory }) => memory,
        cell: (row) => <Memory peak={row.memory} limit={limitOf(row)} />,
      },
      { key: "headroom", csv: "below_fit_limit_bytes", header: t("column.headroom"), numeric: true, value: headroom, cell: (row) => <Headroom free={headroom(row)} fits={row.plan.estimate.fits} sure={own(({ estimate }) => estimate.fits_probability)(row)} /> },
      {
        key: "group",
        header: t("column.group"),
        help: t("column.groupHelp"),
        numeric: true,
        value: own(({ rank_group }) => rank_group),
        cell: own(({ rank_group, fastest }) => <RankGroup number={rank_group} isFastest={fastest === true} />),
      },
      {
        key: "slower",
        csv: "slower_than_best_fraction",
        header: t("column.slower"),
        numeric: true,
        value: slower,
        cell: (row) => (row.plan === best && !row.variant ? t("column.isBest") : signedPercent(slower(row))),
      },
      {
        key: "tokens",
        csv: "tokens_per_s",
        header: t("column.tokens"),
        numeric: true,
        shown: false,
        value: own(({ estimate }) => estimate.tokens_per_s),
        cell: own(({ estimate }) => tokensPerSecond(estimate.tokens_per_s)),
      },
      {
        key: "per_device",
        csv: "tokens_per_s_per_device",
        header: t("column.perDevice"),
        numeric: true,
        shown: false,
        value: own(({ estimate }) => estimate.tokens_per_s_per_device),
        cell: own(({ estimate }) => tokensPerSecond(estimate.tokens_per_s_per_device)),
      },
      {
        key: "mfu",
        csv: "mfu_fraction",
        header: t("column.mfu"),
        help: t("tile.mfuHelp"),
        numeric: true,
        value: own(({ estimate }) => estimate.mfu_fraction),
        cell: own(({ estimate }) => percent(estimate.mfu_fraction)),
      },
      {
        key: "bubble",
        csv: "pipeline_bubble_fraction",
        header: t("common:part.pipeline_bubble"),
        numeric: true,
        shown: false,
        value: own(({ estimate }) => (estimate.time_breakdown_s.pipeline_bubble ?? 0) / estimate.step_time_s),
        cell: own(({ estimate }) => percent((estimate.time_breakdown_s.pipeline_bubble ?? 0) / estimate.step_time_s)),
      },
      {
        key: "communication",
        csv: "exposed_communication_fraction",
        header: t("column.communication"),
        help: t("column.communicationHelp"),
        numeric: true,
        shown: false,
        value: own(({ estimate }) => exposedCommunication(estimate) / estimate.step_time_s),
        cell: own(({ estimate }) => percent(exposedCommunication(estimate) / estimate.step_time_s)),
      },
      {
        key: "bottleneck",
        header: t("column.bottleneck"),
        shown: false,
        value: own(({ estimate }) => estimate.bottleneck),
        cell: own(({ estimate }) => t(`common:part.${estimate.bottleneck}`, { defaultValue: estimate.bottleneck })),
      },
      {
        key: "launchable",
        header: t("column.launchable"),
        help: t("column.launchableHelp"),
        value: own(({ launchable_on }) => launchable_on.join(" ")),
        cell: own(({ launchable_on }) => <Launchable targets={launchable_on} none={t("column.launchableNowhere")} />),
      },
      ...(["tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch_size", "num_microbatches", "zero_stage"] as const).map(degree),
      {
        key: "schedule",
        header: t("common:strategy.schedule"),
        shown: false,
        value: own(({ strategy }) => strategy.schedule),
        cell: own(({ strategy }) => strategy.schedule),
      },
      {
        key: "recompute",
        header: t("common:strategy.recompute"),
        shown: false,
        value: own(({ strategy }) => recomputeText(strategy.recompute)),
        cell: own(({ strategy }) => recomputeText(strategy.recompute)),
      },
      {
        key: "dispatcher",
        header: t("common:strategy.moe_dispatcher"),
        shown: false,
        value: own(({ strategy }) => strategy.moe_dispatcher),
        cell: own(({ strategy }) => strategy.moe_dispatcher ?? "–"),
      },
      {
        key: "bound",
        csv: "step_time_lower_bound_s",
        header: t("column.bound"),
        help: t("column.boundHelp"),
        numeric: true,
        shown: false,
        value: own(({ estimate }) => estimate.step_time_lower_bound_s),
        cell: own(({ estimate }) => seconds(estimate.step_time_lower_bound_s)),
      },
      {
        key: "fidelity",
        header: t("column.fidelity"),
        shown: false,
        value: own(({ estimate }) => estimate.fidelity),
        cell: own(({ estimate }) => t(`fidelity.${estimate.fidelity}`)),
      },
      { key: "id", csv: "plan_id", header: t("column.id"), shown: false, value: ({ key }) => key, cell: ({ key }) => <Text ff="monospace" size="xs">{key}</Text> },
    ];
  }, [t, i18n.language, best, pins, onPin, open, onOpen]);
}

function Pin({ row, isPinned, onPin }: { row: PlanRow; isPinned: boolean; onPin: (key: string) => void }) {
  const { t } = useTranslation("study");
  const Icon = isPinned ? IconPinFilled : IconPin;
  return (
    <ActionIcon variant="subtle" color={isPinned ? "brand" : "gray"} size="sm" aria-label={t("pin", { rank: row.plan.rank })} aria-pressed={isPinned} onClick={() => onPin(row.key)}>
      <Icon size={15} stroke={1.6} />
    </ActionIcon>
  );
}

/** Plans of one group cannot be told apart; the fastest of them by prediction need not come first. */
function RankGroup({ number, isFastest }: { number: number | null; isFastest: boolean }) {
  const { t } = useTranslation("study");
  return (
    <>
      {number ?? "–"}
      {isFastest && (
        <Text size="xs" c="dimmed">
          {t("column.fastest")}
        </Text>
      )}
    </>
  );
}

function PlanName({ row: { key, plan, variant }, isOpen, onOpen }: { row: PlanRow; isOpen: boolean; onOpen: (key: string) => void }) {
  const { t } = useTranslation("study");
  if (variant)
    return (
      <Text size="sm" pl={22} className={classes.change}>
        {changeText(variant.change)}
      </Text>
    );
  const { degrees, options } = strategyParts(plan.strategy);
  const Chevron = isOpen ? IconChevronDown : IconChevronRight;
  return (
    <Group gap={4} wrap="nowrap" align="flex-start" className={classes.planName}>
      {plan.variants.length > 0 ? (
        <Tooltip label={t(isOpen ? "variants.hide" : "variants.show", { count: plan.variants.length })}>
          <ActionIcon
            variant="subtle"
            color="gray"
            size={18}
            mt={2}
            aria-label={t("variants.of", { rank: plan.rank, count: plan.variants.length })}
            aria-expanded={isOpen}
            onClick={() => onOpen(key)}
          >
            <Chevron size={14} stroke={1.8} />
          </ActionIcon>
        </Tooltip>
      ) : (
        <span className={classes.noChevron} />
      )}
      <div>
        <Anchor component={Link} to={`plans/${plan.plan_id}`} c="inherit" fw={550} size="sm">
          {degrees}
        </Anchor>
        <Text size="xs" c="dimmed" fw={400} className={classes.change}>
          {options}
        </Text>
      </div>
    </Group>
  );
}

/** The peak as a bar up to the limit. */
function Memory({ peak, limit }: { peak: number; limit: number }) {
  return (
    <div className={classes.memory}>
      {bytes(peak)}
      <div className={classes.memoryTrack} aria-hidden>
        <div className={classes.memoryBar} style={{ width: `${Math.min(1, peak / limit) * 100}%` }} data-over={peak > limit || undefined} />
      </div>
    </div>
  );
}

function Headroom({ free, fits, sure }: { free: number; fits: boolean | null; sure?: number | null | undefined }) {
  const { t } = useTranslation("study");
  return (
    <>
      {bytes(free)}
      <Text size="xs" c={fits ? "var(--tone-good)" : "var(--tone-bad)"}>
        {t(fits ? "column.fits" : "column.tooLarge")}
        {sure != null && bracketed(percent(sure))}
      </Text>
    </>
  );
}

function Launchable({ targets, none }: { targets: readonly string[]; none: string }) {
  if (!targets.length)
    return (
      <Text size="xs" c="dimmed">
        {none}
      </Text>
    );
  return (
    <Stack gap={2} align="flex-start">
      {targets.map((target) => (
        <Badge key={target} variant="default" tt="none" fw={450} size="sm" h="auto" styles={{ label: { whiteSpace: "normal", overflowWrap: "anywhere" } }}>
          {target}
        </Badge>
      ))}
    </Stack>
  );
}
