import { Button, Card, Group, NativeSelect, SimpleGrid, Stack, Switch, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { useSearchParams } from "react-router";
import { useTranslation } from "../../../i18n";

import { answered, api, type Schemas } from "../../../api/client";
import { toApiError } from "../../../api/problem";
import type { Plan, Study } from "../../../api/queries";
import { CardHead } from "../../../components/CardHead";
import { ErrorState } from "../../../components/ErrorState";
import { NumberField, TextField, toUnread } from "../../../components/JobFields";
import { LoadingPage } from "../../../components/Loading";
import { Sentences } from "../../../components/Sentences";
import { StatTile } from "../../../components/StatTile";
import { Warnings } from "../../../components/Warnings";
import { useUrlChange } from "../../../state/url";
import { otherCode, money } from "../../../units/currency";
import { compact, duration, percent, signedPercent, watts } from "../../../units/format";
import { intervalText, scaled } from "../../../units/interval";
import { OnDevices, Waterfall } from "./Charts";
import { Month } from "./Month";
import { FIELDS, fieldOfProblem, NUMBERS, RECOVERIES, requestOf, type Field, type SiteForm } from "./site";

const LEAST_GAIN = 5e-4;

/** What the plan delivers where nodes fail: the site is in the address, the answer is the server's. */
export function DeliveryTab({ study, plan }: { study: Study; plan: Plan }) {
  const [params] = useSearchParams();
  const asked = Object.fromEntries(FIELDS.map((field) => [field, params.get(field) ?? ""])) as SiteForm;
  const body = requestOf(study, plan, asked);
  const { data, error, isFetching } = useQuery({
    queryKey: ["goodput", body],
    queryFn: ({ signal }) => answered(api.POST("/v1/goodput", { body, signal })),
    staleTime: Infinity,
    retry: false,
  });
  const wrong = error ? fieldOfProblem(toApiError(error).problem.pointer) : null;
  return (
    <Stack gap="md">
      <SiteCard asked={asked} isBusy={isFetching} wrong={wrong} message={error?.message ?? ""} />
      {error && <ErrorState error={error} />}
      {!data && isFetching && <LoadingPage />}
      {data && <Answer answer={data} />}
    </Stack>
  );
}

interface SiteProps {
  asked: SiteForm;
  isBusy: boolean;
  wrong: Field | null;
  message: string;
}

function SiteCard({ asked, isBusy, wrong, message }: SiteProps) {
  const { t } = useTranslation("plan");
  const change = useUrlChange();
  const [form, setForm] = useState(asked);
  const set = (field: Field, value: string) => setForm((before) => ({ ...before, [field]: value }));
  const submit = (event: SyntheticEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (toUnread(event.currentTarget)) return;
    change(Object.fromEntries(FIELDS.map((field) => [field, form[field].trim() || null])));
  };
  const usual = (field: Field, placeholder: string) => ({
    label: t(`delivery.field.${field}`),
    placeholder,
    value: form[field],
    onChange: (value: string) => set(field, value),
    error: wrong === field ? message : undefined,
    style: { flex: "1 1 150px" },
  });
  const numeric = (field: keyof typeof NUMBERS, placeholder: string) => <NumberField {...usual(field, placeholder)} written={NUMBERS[field]} />;
  return (
    <Card component="section" aria-label={t("delivery.site")}>
      <form onSubmit={submit} noValidate>
        <Stack gap="sm">
          <Title order={2}>{t("delivery.site")}</Title>
          <Group align="flex-start" gap="sm">
            {numeric("mtbf_s", t("delivery.default"))}
            <NativeSelect
              label={t("delivery.field.recovery")}
              value={form.recovery}
              onChange={(event) => set("recovery", event.currentTarget.value)}
              data={[{ value: "", label: t("delivery.default") }, ...RECOVERIES.map((value) => ({ value, label: t(`delivery.recovery.${value}`) }))]}
              style={{ flex: "1 1 150px" }}
            />
            {numeric("spares", t("delivery.sparesDefault"))}
            {numeric("repair_s", "3")}
            {numeric("storage_write_bytes_per_s", "100")}
            <TextField {...usual("price_per_device_hour_usd", t("delivery.default"))} description={t("common:currency.typed", { code: otherCode() })} />
          </Group>
          <Group gap="md">
            <Button type="submit" loading={isBusy}>
              {t("delivery.apply")}
            </Button>
            <Switch label={t("delivery.field.elastic")} checked={form.elastic === "true"} onChange={(event) => set("elastic", event.currentTarget.checked ? "true" : "")} />
          </Group>
        </Stack>
      </form>
    </Card>
  );
}

/** Without the step's interval, those of the answer would be of failures alone. */
const hasStepInterval = (answer: Schemas["GoodputDocument"]) => answer.estimate.step_time_low_s != null;

function Answer({ answer }: { answer: Schemas["GoodputDocument"] }) {
  const { t } = useTranslation("plan");
  const { delivered_tokens_per_day_by_month: month, days, cost, energy } = answer;
  const interval = (name: string, format: (value: number) => string) => <div>{intervalText(t, hasStepInterval(answer) ? answer.intervals?.[name] : null, format)}</div>;
  const inDays = (value: number) => duration(value * 86_400);
  return (
    <Stack role="status">
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
        <StatTile
          label={t("delivery.delivered")}
          value={t("delivery.perDay", { tokens: compact(answer.delivered_tokens_per_day) })}
          note={
            <>
              {interval("delivered_tokens_per_day", compact)}
              {t("delivery.failuresByMonth", { low: compact(month.p10), high: compact(month.p90) })}
            </>
          }
        />
        <StatTile label={t("delivery.effective")} value={percent(answer.effective_time_fraction, 2)} help={t("delivery.effectiveHelp")} note={t("delivery.every", { time: answer.mtbf_s == null ? "–" : duration(answer.mtbf_s) })} />
        <StatTile
          label={t("delivery.days")}
          value={days ? inDays(days.mean) : "–"}
          note={
            days ? (
              <>
                {interval("days", inDays)}
                {t("delivery.failuresAlone", { low: inDays(days.p10), high: inDays(days.p90) })}
              </>
            ) : (
              t("delivery.noDays")
            )
          }
        />
        <StatTile label={t("delivery.cost")} value={money(cost?.usd_per_trillion_tokens)} note={cost ? <>{interval("cost.usd_per_trillion_tokens", money)}{cost.basis}</> : t("delivery.noPrice")} />
        <StatTile
          label={t("delivery.energy")}
          value={energy ? `${compact(energy.kwh_per_billion_tokens)} kWh` : "–"}
          note={energy ? <>{interval("energy.kwh_per_billion_tokens", (kwh) => `${compact(kwh)} kWh`)}{t("delivery.power", { power: watts(energy.site_power_w) })}</> : t("delivery.noPower")}
        />
      </SimpleGrid>
      <Warnings warnings={answer.warnings} />
      <Month month={answer.month} />
      <Waterfall answer={answer} />
      <OnDevices answer={answer} />
      <Changes answer={answer} />
      <Card component="section" aria-label={t("delivery.assumed")}>
        <Title order={2}>{t("delivery.assumed")}</Title>
        <Sentences texts={answer.assumptions.filter((text) => text.startsWith("delivery."))} />
      </Card>
    </Stack>
  );
}

function Changes({ answer }: { answer: Schemas["GoodputDocument"] }) {
  const { t } = useTranslation("plan");
  const rows = answer.changes.filter(({ gain_fraction: gain }) => gain >= LEAST_GAIN);
  const now = hasStepInterval(answer) ? answer.intervals?.delivered_tokens_per_day : null;
  return (
    <Card>
      <CardHead title={t("delivery.changes")} help={t("delivery.changesHelp")} />
      {rows.length === 0 && (
        <Text size="sm" c="dimmed">
          {t("delivery.noChange")}
        </Text>
      )}
      {rows.length > 0 && (
        <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("delivery.changes")}>
          <Table horizontalSpacing="sm" verticalSpacing={5}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("delivery.change")}</Table.Th>
                <Table.Th ta="right">{t("delivery.tokensPerDay")}</Table.Th>
                <Table.Th ta="right">{t("delivery.gain")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={row.change}>
                  <Table.Td>{row.change}</Table.Td>
                  <Table.Td ta="right">
                    {compact(row.delivered_tokens_per_day)}
                    {now && (
                      <Text size="xs" c="dimmed">
                        {intervalText(t, scaled(now, row.delivered_tokens_per_day / answer.delivered_tokens_per_day), compact)}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td ta="right">{signedPercent(row.gain_fraction, 2)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}
