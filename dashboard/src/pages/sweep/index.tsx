import { Button, Group, Text } from "@mantine/core";
import { IconChartDots, IconDatabasePlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "../../i18n";
import { useSearchParams } from "react-router";

import { answered, api } from "../../api/client";
import { studyQuery } from "../../api/queries";
import { Asking } from "../../components/Asking";
import { FormPage, InView } from "../../components/FormPage";
import { toUnread } from "../../components/JobFields";
import { useAsked } from "../../components/useAsked";
import { useStored } from "../../components/useStored";
import { useUrlForm } from "../../state/url";
import { Answer } from "./Answer";
import { Fields } from "./Fields";
import type { Sweep } from "./points";
import { DEFAULTS, fieldOfProblem, jobOfText, requestOf, type Field } from "./request";

/** One job at many sizes: how it scales, what it takes, and which plan wins where. `?from=<study>` sweeps a study's job. */
export function Page() {
  const { t } = useTranslation("sweep");
  const [form, set, settle] = useUrlForm<Field>(DEFAULTS);
  const [jobText, setJobText] = useState("");
  const { answer, refusal: refused, sinceMs, isBusy, ask, giveUp } = useAsked<Sweep>();
  const [params] = useSearchParams();
  const from = params.get("from");
  const { data: study, error: fromError } = useQuery({ ...studyQuery(from ?? ""), enabled: from !== null });
  const job = useMemo(() => jobOfText(jobText), [jobText]);
  const stored = useStored(settle, (header, signal) => answered(api.POST("/v1/sweeps/studies", { body: requestOf(form, job), params: { header }, signal })));
  const refusal = refused ?? stored.refusal;
  const wrong = refusal ? fieldOfProblem(refusal.problem.pointer) : null;

  useEffect(() => {
    if (!study) return;
    setJobText(JSON.stringify(study.job, null, 1));
    set({ source: "job" });
  }, [study, set]);

  const run = () => void ask((signal) => answered(api.POST("/v1/sweeps", { body: requestOf(form, job), signal })));
  const [isAsked, setAsked] = useState(false);
  const isMissing = form.source === "job" ? job === null : form.model.trim() === "";
  const isReady = (of: HTMLFormElement | null) => {
    setAsked(true);
    return !isMissing && !toUnread(of);
  };
  return (
    <FormPage
      title={t("title")}
      subtitle={t("subtitle")}
      section={t("job")}
      sourceError={fromError}
      onSubmit={(of) => isReady(of) && run()}
      refusal={refusal}
      waiting={sinceMs !== null && <Asking sinceMs={sinceMs} text={t("asking")} onGiveUp={giveUp} />}
      form={
        <>
          <Fields form={form} set={set} errorOf={(field) => (isAsked && isMissing && field === "model" ? t("common:needed") : wrong === field ? refusal?.message : undefined)} jobText={jobText} setJobText={setJobText} isJob={job !== null} />
          <Group gap="sm" mt="md">
            <Button type="submit" loading={isBusy} leftSection={<IconChartDots size={16} />}>
              {t("run")}
            </Button>
            <Button variant="default" loading={stored.isBusy} onClick={(event) => isReady(event.currentTarget.form) && void stored.store()} leftSection={<IconDatabasePlus size={16} />}>
              {t("store")}
            </Button>
            <Text size="sm" c="dimmed" style={{ flex: "1 1 240px" }}>
              {t("note")}
            </Text>
          </Group>
        </>
      }
    >
      <InView answer={answer}>{answer && <Answer sweep={answer} />}</InView>
    </FormPage>
  );
}
