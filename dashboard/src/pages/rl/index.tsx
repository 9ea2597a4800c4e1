import { Button, Group, Text } from "@mantine/core";
import { IconDatabasePlus, IconRepeat } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "../../i18n";

import { answered, api } from "../../api/client";
import { Asking } from "../../components/Asking";
import { FormPage, InView } from "../../components/FormPage";
import { toUnread } from "../../components/JobFields";
import { useAsked } from "../../components/useAsked";
import { useStored } from "../../components/useStored";
import { useUrlForm } from "../../state/url";
import { Answer } from "./Answer";
import { Fields } from "./Fields";
import { DEFAULTS, fieldOfProblem, formOfPlan, requestOf, type Field, type Form } from "./request";
import type { Plan, Search, Step } from "./steps";

const WANTED: readonly Field[] = ["model", "hardware", "devices", "prompts", "samples", "mean", "cap"];

/** A step of reinforcement learning: which placement is best, or what one of them takes. */
export function Page() {
  const { t } = useTranslation("rl");
  const [form, set, settle] = useUrlForm<Field>(DEFAULTS);
  const { answer, refusal: refused, sinceMs, isBusy, ask, giveUp } = useAsked<Step | Search>();
  const stored = useStored(settle, (header, signal) => answered(api.POST("/v1/rl/studies", { body: requestOf(form), params: { header }, signal })));
  const refusal = refused ?? stored.refusal;
  const wrong = refusal ? fieldOfProblem(refusal.problem.pointer) : null;

  const [isAsked, setAsked] = useState(false);
  const isMissing = (field: Field) => WANTED.includes(field) && form[field].trim() === "";
  const isReady = (of: HTMLFormElement | null) => {
    setAsked(true);
    return !WANTED.some(isMissing) && !toUnread(of);
  };
  const run = (asked: Form) =>
    void ask((signal): Promise<Step | Search> => {
      const body = requestOf(asked);
      return asked.ask === "search" ? answered(api.POST("/v1/rl/searches", { body, signal })) : answered(api.POST("/v1/rl/estimates", { body, signal }));
    });

  function look(plan: Plan) {
    const changes = formOfPlan(plan);
    set(changes);
    run({ ...form, ...changes });
  }

  return (
    <FormPage
      title={t("title")}
      subtitle={t("subtitle")}
      section={t("job")}
      onSubmit={(of) => isReady(of) && run(form)}
      refusal={refusal}
      waiting={sinceMs !== null && <Asking sinceMs={sinceMs} text={t("asking")} onGiveUp={giveUp} />}
      form={
        <>
          <Fields form={form} set={set} errorOf={(field) => (isAsked && isMissing(field) ? t("common:needed") : wrong === field ? refusal?.message : undefined)} />
          <Group gap="sm" mt="md">
            <Button type="submit" loading={isBusy} leftSection={<IconRepeat size={16} />}>
              {t(`run.${form.ask === "search" ? "search" : "estimate"}`)}
            </Button>
            {form.ask === "search" && (
              <Button variant="default" loading={stored.isBusy} onClick={(event) => isReady(event.currentTarget.form) && void stored.store()} leftSection={<IconDatabasePlus size={16} />}>
                {t("store")}
              </Button>
            )}
            <Text size="sm" c="dimmed" style={{ flex: "1 1 240px" }}>
              {t("note")}
            </Text>
          </Group>
        </>
      }
    >
      <InView answer={answer}>{answer && <Answer answer={answer} onLook={look} />}</InView>
    </FormPage>
  );
}
