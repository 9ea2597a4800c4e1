import { Button, FileButton, Group, Select, Stack, Text, Textarea, TextInput, Title } from "@mantine/core";
import { IconUpload, IconWand } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { FormPage } from "../../components/FormPage";
import { HardwareField, NumberField, toUnread } from "../../components/JobFields";
import { useAsked } from "../../components/useAsked";
import { useKept } from "../../components/useKept";
import { useUrlText } from "../../state/url";
import { Answer } from "./Answer";
import { DEVICES, fieldOfProblem, missingOf, requestOf, type Field } from "./request";

const TARGETS = ["mindspeed-llm", "mindspeed-llm-fsdp2", "mindformers", "megatron-lm", "torchtitan"];

interface Tuned {
  /** As it was when it was sent: the box may have changed since. */
  script: string;
  name: string;
  answer: Schemas["TuneDocument"];
}

/** A launch script: what it costs as it is, the best for the same model, batch and devices, and the lines to change. */
export function Page() {
  const { t } = useTranslation("scripts");
  const [hardware, setHardware] = useUrlText("hardware");
  const [devices, setDevices] = useUrlText("devices");
  const [target, setTarget] = useUrlText("target");
  const [assume, setAssume] = useUrlText("assume");
  const [script, setScript] = useKept("script");
  const [name, setName] = useKept("script-name", "launch.sh");
  const [missing, setMissing] = useState<readonly Field[]>([]);
  const { answer: tuned, refusal, isBusy, ask } = useAsked<Tuned>();
  const wrong = refusal ? fieldOfProblem(refusal.problem.pointer) : null;
  const form = { script, hardware, devices, target, assume };
  const errorOf = (field: Field) => (missing.includes(field) && !form[field].trim() ? t(`missing.${field}`) : wrong === field ? refusal?.message : undefined);

  const tune = (of: HTMLFormElement) => {
    const left = missingOf(form);
    setMissing(left);
    if (left.length || toUnread(of)) return;
    void ask(async (signal) => {
      const answer = await answered(api.POST("/v1/scripts", { body: requestOf(form), signal }));
      return { script, name, answer };
    });
  };

  async function upload(file: File | null) {
    if (!file) return;
    setScript(await file.text());
    setName(file.name);
  }

  return (
    <FormPage
      title={t("title")}
      subtitle={t("subtitle")}
      section={t("script.section")}
      onSubmit={tune}
      refusal={refusal}
      form={
        <Stack gap="sm">
          <Title order={2}>{t("script.section")}</Title>
          <Textarea
            label={t("script.label")}
            description={t("script.help")}
            value={script}
            onChange={(event) => setScript(event.currentTarget.value)}
            error={errorOf("script")}
            autosize
            minRows={8}
            maxRows={24}
            spellCheck={false}
            required
            styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "var(--mantine-font-size-sm)" } }}
          />
          <Group align="flex-start" gap="sm">
            <HardwareField
              label={t("hardware")}
              placeholder={t("hardwarePlaceholder")}
              value={hardware}
              onChange={setHardware}
              error={errorOf("hardware")}
              required
              style={{ flex: "2 1 320px" }}
            />
            <NumberField
              label={t("devices")}
              placeholder={t("devicesPlaceholder")}
              written={DEVICES}
              value={devices}
              onChange={setDevices}
              error={errorOf("devices")}
              style={{ flex: "1 1 160px" }}
            />
            <Select
              label={t("target")}
              placeholder={t("targetPlaceholder")}
              data={TARGETS}
              value={target || null}
              onChange={(value) => setTarget(value ?? "")}
              error={errorOf("target")}
              clearable
              style={{ flex: "1 1 200px" }}
            />
          </Group>
          <TextInput
            label={t("assume")}
            description={t("assumeHelp")}
            value={assume}
            onChange={(event) => setAssume(event.currentTarget.value)}
            error={errorOf("assume")}
            autoComplete="off"
            spellCheck={false}
          />
          <Group gap="xs">
            <Button type="submit" loading={isBusy} leftSection={<IconWand size={16} />}>
              {t("tune")}
            </Button>
            <FileButton onChange={(file) => void upload(file)}>
              {(props) => (
                <Button {...props} variant="default" leftSection={<IconUpload size={15} />}>
                  {t("upload")}
                </Button>
              )}
            </FileButton>
          </Group>
          <Text size="sm" c="dimmed">
            {t("safe")}
          </Text>
        </Stack>
      }
    >
      {tuned && <Answer {...tuned} />}
    </FormPage>
  );
}
