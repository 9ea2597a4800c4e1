import { Alert, Button, FileButton, Group, JsonInput, List, TextInput } from "@mantine/core";
import { IconAlertTriangle, IconFileImport, IconUpload } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { useTranslation } from "../i18n";

import { answered, api, type Schemas } from "../api/client";
import { toApiError } from "../api/problem";

interface Props {
  onModel: (model: Schemas["ImportedModel"]) => void;
  /** What the server said about the model elsewhere. */
  error?: ReactNode;
  rows?: number;
}

/** A Hugging Face config.json, pasted or uploaded, read by the server. */
export function ConfigImport({ onModel, error, rows = 5 }: Props) {
  const { t } = useTranslation("newStudy");
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [refusal, setRefusal] = useState<string | null>(null);
  const [notes, setNotes] = useState<string[]>([]);
  const [isBusy, setBusy] = useState(false);

  async function read(config: string) {
    setBusy(true);
    setRefusal(null);
    setNotes([]);
    try {
      const body = JSON.parse(config) as { model_type: string };
      const imported = await answered(api.POST("/v1/models:import", { body, params: { query: { name } } }));
      onModel(imported);
      setNotes(imported.notes);
      setText("");
    } catch (failure) {
      setRefusal(failure instanceof SyntaxError ? t("model.notJson") : toApiError(failure).message);
    } finally {
      setBusy(false);
    }
  }

  async function upload(file: File | null) {
    if (!file) return;
    const content = await file.text();
    setText(content);
    await read(content);
  }

  return (
    <>
      <TextInput
        label={t("model.name")}
        description={t("model.nameHelp")}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
      />
      <JsonInput
        label={t("model.paste")}
        description={t("model.pasteHelp")}
        value={text}
        onChange={setText}
        error={refusal ?? error}
        autosize
        minRows={rows}
        maxRows={14}
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "var(--mantine-font-size-sm)" } }}
      />
      <Group gap="xs">
        <Button variant="default" leftSection={<IconFileImport size={15} />} disabled={!text.trim()} loading={isBusy} onClick={() => void read(text)}>
          {t("model.read")}
        </Button>
        <FileButton accept="application/json,.json" onChange={(file) => void upload(file)}>
          {(props) => (
            <Button {...props} variant="default" leftSection={<IconUpload size={15} />}>
              {t("model.upload")}
            </Button>
          )}
        </FileButton>
      </Group>
      {notes.length > 0 && (
        <Alert color="orange" variant="light" icon={<IconAlertTriangle size={18} />} title={t("model.notes")} c="inherit">
          <List size="sm">
            {notes.map((note) => (
              <List.Item key={note}>{note}</List.Item>
            ))}
          </List>
        </Alert>
      )}
    </>
  );
}
