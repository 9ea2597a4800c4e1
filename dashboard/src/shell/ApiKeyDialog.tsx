import { Button, Code, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState, useSyncExternalStore, type SyntheticEvent } from "react";
import { Trans, useTranslation } from "../i18n";

import { apiKey, isApiKeyWanted, onApiKeyChange, setApiKey } from "../api/key";

/** Servers beyond loopback ask for an API key; it stays in this tab. */
export function ApiKeyDialog() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const isWanted = useSyncExternalStore(onApiKeyChange, isApiKeyWanted);
  const [typed, setTyped] = useState("");

  function save(event: SyntheticEvent) {
    event.preventDefault();
    setApiKey(typed.trim());
    setTyped("");
    void queries.resetQueries();
  }

  return (
    <Modal opened={isWanted} onClose={() => undefined} withCloseButton={false} title={t("apiKey.title")}>
      <form onSubmit={save}>
        <Stack>
          <Text size="sm">
            <Trans text={t("apiKey.why")} components={{ code: (words) => <Code>{words}</Code> }} />
          </Text>
          <PasswordInput
            label={t("apiKey.label")}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            error={apiKey() ? t("apiKey.refused") : undefined}
            autoComplete="off"
            data-autofocus
            required
          />
          <Button type="submit" disabled={!typed.trim()}>
            {t("apiKey.use")}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
