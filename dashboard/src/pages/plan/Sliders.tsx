import { Button, Card, Group, SimpleGrid, Slider, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { hardwareQuery, type Plan, type Study } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { ErrorState } from "../../components/ErrorState";
import { StatTile } from "../../components/StatTile";
import { useUrlChange, useUrlText } from "../../state/url";
import { bytes, number, seconds, signedPercent, tokensPerSecond } from "../../units/format";
import type { Analysis } from "./data";
import { slidersOf, slidJob, STEPS, type Fields, type Slid, type SliderName } from "./whatIf";

const PAUSE_MS = 300;

function read(text: string): Slid {
  const pairs = text.split(",").map((pair) => pair.split("~"));
  return Object.fromEntries(pairs.flatMap(([name = "", value]) => (STEPS[name as SliderName]?.includes(Number(value)) ? [[name, Number(value)]] : [])));
}

const estimated = async (study: Study, plan: Plan, slid: Slid, outer: number, signal: AbortSignal) => {
  const { model, cluster, training, software } = study.job as unknown as Fields & { model: unknown; software: unknown };
  const body = { ...slidJob({ model, cluster, training, software }, slid, outer), strategy: plan.strategy, advise: false } as unknown as Schemas["EstimateRequest"];
  return (await answered(api.POST("/v1/estimates", { body, signal }))) as Schemas["EstimateDocument"];
};

/** The plan as it stands in another place: a faster network, longer sequences, a worse balance of experts. */
export function Sliders({ study, plan, analysis }: { study: Study; plan: Plan; analysis: Analysis }) {
  const { t } = useTranslation("plan");
  const change = useUrlChange();
  const [text, setText] = useUrlText("slid");
  const slid = useMemo(() => read(text), [text]);
  const [asked] = useDebouncedValue(slid, PAUSE_MS);
  const names = slidersOf(analysis, study.num_devices);
  const profile = useQuery(hardwareQuery(study.hardware));
  const outer = profile.data?.tiers.at(-1)?.bandwidth_bytes_per_s;
  const query = (slidTo: Slid) => ({
    queryKey: ["slid", study.id, plan.plan_id, slidTo, outer],
    queryFn: ({ signal }: { signal: AbortSignal }) => estimated(study, plan, slidTo, outer ?? 0, signal),
    enabled: outer !== undefined,
    staleTime: Infinity,
    retry: false,
  });
  const isMoved = Object.keys(asked).length > 0;
  const base = useQuery({ ...query({}), enabled: outer !== undefined && isMoved });
  const found = useQuery({ ...query(asked), enabled: outer !== undefined && isMoved, placeholderData: keepPreviousData });
  // A site's own profile is not in the catalogue: its rates are not known here.
  if (profile.error) return null;
  const set = (name: SliderName, value: number | undefined) => {
    const pairs = Object.entries({ ...slid, [name]: value }).filter(([, each]) => each !== undefined);
    setText(pairs.map((pair) => pair.join("~")).join(","));
  };
  return (
    <Card component="section" aria-labelledby="what-if-sliders">
      <CardHead title={t("slid.title")} id="what-if-sliders" help={t("slid.help")}>
        <Button variant="default" size="xs" disabled={!text} onClick={() => change({ slid: null })}>
          {t("slid.reset")}
        </Button>
      </CardHead>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="lg" mb="md">
        {names.map((name) => (
          <OneSlider key={name} name={name} value={slid[name]} onChange={(value) => set(name, value)} />
        ))}
      </SimpleGrid>
      {isMoved && found.error && <ErrorState error={found.error} />}
      {isMoved && !found.error && found.data && base.data && (
        <div role="status" aria-busy={found.isFetching}>
          <Answer now={found.data.estimate} before={base.data.estimate} />
        </div>
      )}
    </Card>
  );
}

function OneSlider({ name, value, onChange }: { name: SliderName; value: number | undefined; onChange: (value: number | undefined) => void }) {
  const { t } = useTranslation("plan");
  const steps = STEPS[name];
  // The load has no factor of one: it begins at what the job says, left of the first step.
  const isLoad = name === "load";
  const places: readonly (number | undefined)[] = isLoad ? [undefined, ...steps] : steps;
  const place = Math.max(0, places.indexOf(value ?? (isLoad ? undefined : 1)));
  const shown = value === undefined ? t("slid.asIs") : t(isLoad ? "slid.value" : "slid.times", { factor: number(value) });
  return (
    <div>
      <Group justify="space-between" gap="xs">
        <Text size="sm" fw={500}>
          {t(`slid.name.${name}`)}
        </Text>
        <Text size="sm" className="number">
          {shown}
        </Text>
      </Group>
      <Slider
        min={0}
        max={places.length - 1}
        step={1}
        value={place}
        onChange={(at) => onChange(places[at] === 1 && !isLoad ? undefined : places[at])}
        label={null}
        thumbLabel={t(`slid.name.${name}`)}
        thumbProps={{ "aria-valuetext": shown }}
        mt={6}
      />
    </div>
  );
}

function Answer({ now, before }: { now: Schemas["EstimateDocument"]["estimate"]; before: Schemas["EstimateDocument"]["estimate"] }) {
  const { t } = useTranslation("plan");
  const from = (value: number, old: number, written: (value: number) => string) => t("slid.from", { old: written(old), change: signedPercent(value / old - 1) });
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm">
      <StatTile label={t("tile.step")} value={seconds(now.step_time_s)} note={from(now.step_time_s, before.step_time_s, seconds)} />
      <StatTile label={t("tile.throughput")} value={tokensPerSecond(now.tokens_per_s)} note={from(now.tokens_per_s, before.tokens_per_s, tokensPerSecond)} />
      <StatTile
        label={t("tile.memory")}
        value={bytes(now.peak_memory_bytes)}
        note={`${t(now.fits ? "fits" : "tooLarge")} · ${from(now.peak_memory_bytes, before.peak_memory_bytes, bytes)}`}
        {...(!now.fits && { tone: "bad" as const })}
      />
    </SimpleGrid>
  );
}
