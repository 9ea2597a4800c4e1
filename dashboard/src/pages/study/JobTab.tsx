import { Alert, Card, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import type { Study } from "../../api/queries";
import { CodeBlock } from "../../components/CodeBlock";
import { Sentences } from "../../components/Sentences";
import { compact, count, duration, moment, number, seconds } from "../../units/format";
import type { Result } from "./data";
import classes from "./Study.module.css";

const SECTIONS = ["cluster", "training", "software", "search", "model"] as const;
const LARGE = 1e6; // above it digits say nothing

/** The job as it was understood, what was assumed, and how the search went. */
export function JobTab({ study, result }: { study: Study; result: Result | null }) {
  const { t } = useTranslation("study");
  return (
    <Stack gap="md">
      {study.warnings.map((warning) => (
        <Alert key={warning} color="orange" variant="light" icon={<IconAlertTriangle size={18} />} c="inherit">
          {warning}
        </Alert>
      ))}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        <Card>
          <Title order={2} mb="xs">
            {t("job.assumptions")}
          </Title>
          {study.assumptions.length ? (
            <Sentences texts={study.assumptions} />
          ) : (
            <Text size="sm" c="dimmed">
              {t("job.noAssumptions")}
            </Text>
          )}
        </Card>
        <Run study={study} result={result} />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
        {SECTIONS.map((name) => (
          <Section key={name} name={name} values={study.job[name]} />
        ))}
      </SimpleGrid>
      <CodeBlock label={t("job.json")} text={JSON.stringify(study.job, null, 2)} />
    </Stack>
  );
}

function Facts({ facts }: { facts: readonly (readonly [string, string])[] }) {
  return (
    <dl className={classes.facts}>
      {facts.map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd className="number" style={{ whiteSpace: "normal" }}>
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The names are those of a job file. */
function Section({ name, values }: { name: (typeof SECTIONS)[number]; values: unknown }) {
  const { t } = useTranslation("study");
  const facts = flat(values as Record<string, unknown> | undefined);
  if (!facts.length) return null;
  return (
    <Card>
      <Title order={2} mb="xs">
        {t(`job.section.${name}`)}
      </Title>
      <Facts facts={facts} />
    </Card>
  );
}

function flat(values: Record<string, unknown> | undefined, prefix = ""): [string, string][] {
  return Object.entries(values ?? {}).flatMap(([name, value]): [string, string][] => {
    if (value === null || value === undefined) return [];
    if (typeof value === "object" && !Array.isArray(value)) return flat(value as Record<string, unknown>, `${prefix}${name}.`);
    return [[prefix + name, textOf(value)]];
  });
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(", ");
  if (typeof value !== "number") return typeof value === "object" ? JSON.stringify(value) : String(value);
  return Math.abs(value) >= LARGE ? compact(value, 4) : Number.isInteger(value) ? count(value) : number(value, 5);
}

function Run({ study, result }: { study: Study; result: Result | null }) {
  const { t } = useTranslation("study");
  const timing = result?.timing;
  const phases = (["enumerate_s", "legality_s", "price_s", "simulate_s", "refine_s", "rank_s", "explain_s", "total_s"] as const).flatMap((name) => {
    const time = timing?.[name];
    return time == null ? [] : [[t(`job.timing.${name}`), seconds(time, 3)] as const];
  });
  const facts = [
    [t("job.created"), moment(study.created_at_s)],
    ...(study.started_at_s === null ? [] : [[t("job.started"), moment(study.started_at_s)] as const]),
    ...(study.finished_at_s === null || study.started_at_s === null ? [] : [[t("job.took"), duration(study.finished_at_s - study.started_at_s)] as const]),
    ...(study.attempts > 1 ? [[t("job.attempts"), count(study.attempts)] as const] : []),
    [t("job.version"), study.version],
    [t("job.seed"), String(study.seed)],
    ...phases,
  ] as const;
  return (
    <Card>
      <Title order={2} mb="xs">
        {t("job.run")}
      </Title>
      <Facts facts={facts} />
    </Card>
  );
}
