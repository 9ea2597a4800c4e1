import { Stack, Text } from "@mantine/core";
import { useTranslation } from "../../i18n";

import type { Plan, Study } from "../../api/queries";
import { belowLimit, fitLimit } from "../../components/fitLimit";
import { bytes, percent, seconds } from "../../units/format";
import classes from "./Plan.module.css";
import { compared, largest, type PartDifference } from "./compared";

/** A name within a sentence: abbreviations stay as they are. */
const within = (name: string): string => (/^[A-Z][a-z]/.test(name) ? name.charAt(0).toLowerCase() + name.slice(1) : name);

interface Props {
  plan: Plan;
  plans: readonly Plan[];
  study: Study;
}

/** Why this plan stands where it stands, and what bounds it: two sentences, in the reader's language. */
export function Why({ plan, plans, study }: Props) {
  const place = plans.findIndex(({ plan_id }) => plan_id === plan.plan_id);
  const other = place === 0 ? plans[1] : plans[0];
  return (
    <Stack gap={2} className={classes.prose}>
      <Text fw={550}>
        {place === 0 && <First study={study} plan={plan} next={plans[1]} count={plans.length} />}
        {place > 0 && other && <Against plan={plan} other={other} />}
      </Text>
      <Bound plan={plan} />
    </Stack>
  );
}

function First({ study, plan, next, count }: { study: Study; plan: Plan; next: Plan | undefined; count: number }) {
  const { t } = useTranslation("plan");
  const objective = within(t(`common:objective.${study.objective}`, { defaultValue: study.objective }));
  const proof = (study.result as { proof?: { proved_best?: boolean; plan_id?: string | null } } | null)?.proof;
  const proved = proof?.proved_best && (proof.plan_id ?? plan.plan_id) === plan.plan_id;
  return (
    <>
      {t(proved ? "why.proved" : "why.first", { objective, count })} {next && <Against plan={next} other={plan} />}
    </>
  );
}

/** How `plan` differs from `other`. */
function Against({ plan, other }: { plan: Plan; other: Plan }) {
  const { t, i18n } = useTranslation("plan");
  const { fraction, loses, saves, memoryBytes } = compared(plan.estimate, other.estimate);
  const names = { plan: plan.rank, other: other.rank };
  if (Math.abs(fraction) < 5e-4)
    return t(Math.abs(memoryBytes) < 2 ** 26 ? "why.equal" : memoryBytes > 0 ? "why.equalMore" : "why.equalLess", {
      ...names,
      bytes: bytes(Math.abs(memoryBytes)),
    });
  const list = new Intl.ListFormat(i18n.language, { type: "conjunction" });
  const words = (parts: readonly PartDifference[]) =>
    list.format(
      parts.map(({ part, seconds: time }) =>
        t("why.part", { time: seconds(Math.abs(time), 3), part: within(t(`common:part.${part}`, { defaultValue: part })) }),
      ),
    );
  const reasons = [
    ...(loses.length ? [t("why.loses", { parts: words(loses) })] : []),
    ...(saves.length ? [t("why.saves", { parts: words(saves) })] : []),
  ];
  return t(fraction > 0 ? "why.slower" : "why.faster", {
    ...names,
    share: percent(Math.abs(fraction)),
    reasons: (fraction > 0 ? reasons : reasons.reverse()).join(t("why.and")),
  });
}

function Bound({ plan: { estimate } }: { plan: Plan }) {
  const { t, i18n } = useTranslation("plan");
  const list = new Intl.ListFormat(i18n.language, { type: "conjunction" });
  const parts = largest(estimate.time_breakdown_s).slice(0, 3);
  const text = list.format(
    parts.map(({ part, value }) =>
      t("why.share", { part: within(t(`common:part.${part}`, { defaultValue: part })), share: percent(value / estimate.step_time_s, 0) }),
    ),
  );
  return (
    <Text size="sm" c="dimmed">
      {t("why.bound", { parts: text })} {t(estimate.fits ? "why.free" : "why.missing", { bytes: bytes(Math.abs(belowLimit(estimate))), limit: bytes(fitLimit(estimate)) })}
    </Text>
  );
}
