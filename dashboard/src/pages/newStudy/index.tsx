import { Button, Stack, Tabs } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState, type SyntheticEvent } from "react";
import { useTranslation } from "../../i18n";
import { useNavigate } from "react-router";

import { answered, api } from "../../api/client";
import { apiKey } from "../../api/key";
import { toApiError, type ApiError } from "../../api/problem";
import { newRequestKey } from "../../api/requestKey";
import { CodeBlock } from "../../components/CodeBlock";
import { ErrorState } from "../../components/ErrorState";
import { toUnread } from "../../components/JobFields";
import { LabelFields } from "../../components/labels/LabelFields";
import { LoadingPage } from "../../components/Loading";
import { PageHeader } from "../../components/PageHeader";
import { ClusterSection } from "./ClusterSection";
import { commandOf, fieldOfProblem, jobOf, labelsOf, missingOf, requestOf, type Field } from "./form";
import { SearchSection, SoftwareSection, TrainingSection } from "./JobSections";
import { ModelSection } from "./ModelSection";
import { Section } from "./Section";
import classes from "./newStudy.module.css";
import { useForm } from "./useForm";

export function Page() {
  const { t } = useTranslation("newStudy");
  const { form, set: setField, settle, custom, setCustom, isFilling, fromError } = useForm();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<ApiError | null>(null);

  const job = useMemo(() => jobOf(form, custom), [form, custom]);
  const field = refusal ? fieldOfProblem(refusal.problem) : null;
  const [isAsked, setAsked] = useState(false);
  const missing = missingOf(form, custom);
  const errors: Partial<Record<Field, string>> = {
    ...(field && refusal && { [field]: refusal.message }),
    ...(isAsked && Object.fromEntries(missing.map((name) => [name, t(`missing.${name}`)]))),
  };

  function set(name: Field, value: string) {
    setField(name, value);
    if (name === field || (field === "model" && name === "source")) setRefusal(null);
  }

  async function create(event: SyntheticEvent<HTMLFormElement>) {
    event.preventDefault();
    settle();
    setAsked(true);
    setRefusal(null);
    if (toUnread(event.currentTarget) || missing[0]) return void requestAnimationFrame(() => document.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    setBusy(true);
    setRefusal(null);
    try {
      const params = { header: { "idempotency-key": newRequestKey() }, query: labelsOf(form) };
      const study = await answered(api.POST("/v1/studies", { body: job, params }));
      await queries.invalidateQueries({ queryKey: ["studies"] });
      void navigate(`/studies/${study.id}`);
    } catch (error) {
      const problem = toApiError(error);
      setRefusal(problem);
      const wrong = fieldOfProblem(problem.problem);
      if (wrong) requestAnimationFrame(() => document.getElementsByName(wrong)[0]?.focus());
    } finally {
      setBusy(false);
    }
  }

  if (isFilling) return <LoadingPage />;
  const section = { form, set, errors, custom, setCustom };
  const server = window.location.origin;
  return (
    <>
      <PageHeader title={t("title")} subtitle={t("subtitle")} path={[{ label: t("common:nav.studies"), to: "/studies" }]} />
      {fromError && <ErrorState error={fromError} />}
      <form onSubmit={(event) => void create(event)} className={classes.columns} noValidate>
        <Stack>
          <ModelSection {...section} setCustom={(model) => (setCustom(model), setRefusal(null))} />
          <ClusterSection {...section} />
          <TrainingSection {...section} />
          <SoftwareSection {...section} />
          <SearchSection {...section} />
          <Section title={t("labels:edit")}>
            <LabelFields given={form} set={set} errorOf={(label) => errors[label]} />
          </Section>
        </Stack>
        <Stack className={classes.side}>
          {refusal && <ErrorState error={refusal} />}
          <Button type="submit" size="md" loading={isBusy} leftSection={<IconSearch size={17} />}>
            {t("create")}
          </Button>
          <Tabs defaultValue="command">
            <Tabs.List mb="xs" aria-label={t("equivalent")}>
              <Tabs.Tab value="command">{t("command")}</Tabs.Tab>
              <Tabs.Tab value="request">{t("request")}</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="command">
              <CodeBlock label={t("commandLabel")} text={commandOf(form, server)} />
            </Tabs.Panel>
            <Tabs.Panel value="request">
              <CodeBlock label={t("requestLabel")} text={requestOf(job, labelsOf(form), server, apiKey() !== "")} />
            </Tabs.Panel>
          </Tabs>
        </Stack>
      </form>
    </>
  );
}
