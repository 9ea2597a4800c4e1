import { Button, Card, FileButton, Group, NumberInput, Select, Stack, Text, Textarea, Title } from "@mantine/core";
import { IconUpload, IconWand } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { toApiError, type ApiError } from "../../api/problem";
import { hardwareListQuery } from "../../api/queries";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { useUrlText } from "../../state/url";
import { Answer } from "./Answer";
import { fieldOfProblem, requestOf, type Field } from "./request";

const FAMILIES = ["ascend", "nvidia", "amd"] as const;
const TARGETS = ["mindspeed-llm", "mindformers", "megatron-lm"];

interface Tuned {
  /** As it was when it was sent: the box may have changed since. */
  script: string;
  name: string;
  answer: Schemas["TuneDocument"];
}

/** A launch script: what it costs as it is, the best for the same model, batch and devices, and the lines to change. */
export function Page() {
  const { t } = useTranslation("scripts");
  const { data } = useQuery(hardwareListQuery());
  const [hardware, setHardware] = useUrlText("hardware");
  const [devices, setDevices] = useUrlText("devices");
  const [target, setTarget] = useUrlText("target");
  const [script, setScript] = useState("");
  const [name, setName] = useState("launch.sh");
  const [tuned, setTuned] = useState<Tuned | null>(null);
  const [refusal, setRefusal] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const wrong = refusal ? fieldOfProblem(refusal.problem.pointer) : null;
  const errorOf = (field: Field) => (wrong === field ? { error: refusal?.message } : {});
  const items = data?.items ?? [];

  async function tune(event: SyntheticEvent) {
    event.preventDefault();
    setBusy(true);
    setRefusal(null);
    setTuned(null);
    try {
      const answer = await answered(api.POST("/v1/scripts", { body: requestOf({ script, hardware, devices, target }) }));
      setTuned({ script, name, answer });
    } catch (failure) {
      setRefusal(toApiError(failure));
    } finally {
      setBusy(false);
    }
  }

  async function upload(file: File | null) {
    if (!file) return;
    setScript(await file.text());
    setName(file.name);
  }

  return (
    <>
      <PageHeader title={t("title")} subtitle={t("subtitle")} />
      <Stack>
        <Card component="section" aria-label={t("script.section")}>
          <form onSubmit={(event) => void tune(event)} noValidate>
            <Stack gap="sm">
              <Title order={2}>{t("script.section")}</Title>
              <Textarea
                label={t("script.label")}
                description={t("script.help")}
                value={script}
                onChange={(event) => setScript(event.currentTarget.value)}
                {...errorOf("script")}
                autosize
                minRows={8}
                maxRows={24}
                spellCheck={false}
                required
                styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "var(--mantine-font-size-sm)" } }}
              />
              <Group align="flex-start" gap="sm">
                <Select
                  label={t("hardware")}
                  placeholder={t("hardwarePlaceholder")}
                  data={FAMILIES.map((family) => ({
                    group: t(`newStudy:cluster.family.${family}`),
                    items: items.filter((item) => item.family === family).map((item) => ({ value: item.name, label: item.title })),
                  }))}
                  value={hardware || null}
                  onChange={(value) => setHardware(value ?? "")}
                  {...errorOf("hardware")}
                  searchable
                  required
                  style={{ flex: "2 1 220px" }}
                />
                <NumberInput
                  label={t("devices")}
                  placeholder={t("devicesPlaceholder")}
                  value={devices}
                  onChange={(value) => setDevices(String(value))}
                  {...errorOf("devices")}
                  allowDecimal={false}
                  thousandSeparator=","
                  min={0}
                  hideControls
                  style={{ flex: "1 1 160px" }}
                />
                <Select
                  label={t("target")}
                  placeholder={t("targetPlaceholder")}
                  data={TARGETS}
                  value={target || null}
                  onChange={(value) => setTarget(value ?? "")}
                  {...errorOf("target")}
                  clearable
                  style={{ flex: "1 1 200px" }}
                />
              </Group>
              <Group gap="xs">
                <Button type="submit" loading={isBusy} disabled={!script.trim()} leftSection={<IconWand size={16} />}>
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
          </form>
        </Card>
        {refusal && <ErrorState error={refusal} />}
        {tuned && <Answer {...tuned} />}
      </Stack>
    </>
  );
}
