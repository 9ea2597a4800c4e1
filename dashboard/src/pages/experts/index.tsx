import { Button, FileButton, Group, Select, Stack, Switch, Text, Textarea, Title } from "@mantine/core";
import { IconUpload, IconWand } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { modelsQuery } from "../../api/queries";
import { FormPage } from "../../components/FormPage";
import { HardwareField, NumberField, toUnread } from "../../components/JobFields";
import { useAsked } from "../../components/useAsked";
import { useKept } from "../../components/useKept";
import { useUrlText } from "../../state/url";
import { Answer } from "./Answer";
import { fieldOfProblem, requestOf, writtenOf, type Field } from "./request";

/** Where the experts of a job should lie: loads in, heat maps before and after, and what moving costs. */
export function Page() {
  const { t } = useTranslation("experts");
  const models = useQuery(modelsQuery()).data?.items ?? [];
  const [model, setModel] = useUrlText("model");
  const [hardware, setHardware] = useUrlText("hardware");
  const [devices, setDevices] = useUrlText("devices");
  const [tp, setTp] = useUrlText("tp");
  const [pp, setPp] = useUrlText("pp");
  const [ep, setEp] = useUrlText("ep");
  const [validSteps, setValidSteps] = useUrlText("validSteps");
  const [maxCopies, setMaxCopies] = useUrlText("maxCopies");
  const [steps, setSteps] = useUrlText("steps");
  const [early, setEarly] = useState(false);
  const [log, setLog] = useKept("experts-log");
  const [isAsked, setAsked] = useState(false);
  const { answer, refusal, isBusy, ask } = useAsked<Schemas["ExpertPlanDocument"]>();
  const wrong = refusal ? fieldOfProblem(refusal.problem.pointer) : null;
  const missing = (["model", "hardware", "devices"] as const).filter((field) => !{ model, hardware, devices }[field].trim());
  const errorOf = (field: Field) => (isAsked && missing.some((each) => each === field) ? t(`missing.${field}`) : wrong === field ? refusal?.message : undefined);

  const plan = (of: HTMLFormElement) => {
    setAsked(true);
    if (missing.length || toUnread(of)) return;
    void ask((signal) => {
      const body = requestOf({ model, hardware, devices, tp, pp, ep, validSteps, maxCopies, log, steps, early });
      return answered(api.POST("/v1/experts/plans", { body, signal }));
    });
  };

  const whole = (field: Field, value: string, set: (text: string) => void, placeholder: string) => (
    <NumberField label={t(`field.${field}`)} written={writtenOf(field)} placeholder={placeholder} value={value} onChange={set} error={errorOf(field)} style={{ flex: "1 1 110px" }} required={field === "devices"} />
  );

  return (
    <FormPage
      title={t("title")}
      subtitle={t("subtitle")}
      section={t("job")}
      onSubmit={plan}
      refusal={refusal}
      form={
        <Stack gap="sm">
          <Title order={2}>{t("job")}</Title>
          <Group align="flex-start" gap="sm">
            <Select
              label={t("field.model")}
              placeholder={t("modelPlaceholder")}
              data={models.filter(({ num_experts }) => num_experts).map(({ name }) => name)}
              value={model || null}
              onChange={(value) => setModel(value ?? "")}
              error={errorOf("model")}
              searchable
              required
              style={{ flex: "2 1 300px" }}
            />
            <HardwareField
              label={t("field.hardware")}
              placeholder={t("hardwarePlaceholder")}
              value={hardware}
              onChange={setHardware}
              error={errorOf("hardware")}
              required
              style={{ flex: "2 1 300px" }}
            />
            {whole("devices", devices, setDevices, "256")}
          </Group>
          <Group align="flex-start" gap="sm">
            {whole("tp", tp, setTp, "1")}
            {whole("pp", pp, setPp, "1")}
            {whole("ep", ep, setEp, "16")}
            {whole("validSteps", validSteps, setValidSteps, "50")}
            {whole("maxCopies", maxCopies, setMaxCopies, "1")}
          </Group>
          <Title order={2}>{t("loads")}</Title>
          <Textarea
            label={t("field.log")}
            description={t("logHelp")}
            value={log.length > 20_000 ? `${log.slice(0, 20_000)}…` : log}
            onChange={(event) => setLog(event.currentTarget.value)}
            readOnly={log.length > 20_000}
            error={errorOf("log")}
            autosize
            minRows={3}
            maxRows={10}
            spellCheck={false}
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "var(--mantine-font-size-sm)" } }}
          />
          <Group align="flex-end" gap="sm">
            {whole("steps", steps, setSteps, "50")}
            <Switch label={t("early")} checked={early} onChange={(event) => setEarly(event.currentTarget.checked)} mb={6} />
          </Group>
          <Group gap="xs">
            <Button type="submit" loading={isBusy} leftSection={<IconWand size={16} />}>
              {t("plan")}
            </Button>
            <FileButton onChange={(file) => void file?.text().then(setLog)} accept=".csv,.json,.txt,.log">
              {(props) => (
                <Button {...props} variant="default" leftSection={<IconUpload size={15} />}>
                  {t("upload")}
                </Button>
              )}
            </FileButton>
            {log && (
              <Button variant="default" onClick={() => setLog("")}>
                {t("clear")}
              </Button>
            )}
          </Group>
          <Text size="sm" c="dimmed">
            {t("note")}
          </Text>
        </Stack>
      }
    >
      {answer && <Answer answer={answer} />}
    </FormPage>
  );
}
