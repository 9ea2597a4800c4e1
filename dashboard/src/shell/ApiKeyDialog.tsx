import { Button, Code, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState, useSyncExternalStore, type SyntheticEvent } from "react";
import { Trans, useTranslation } from "../i18n";

import { apiKey, changeApiKey, isApiKeyChanged, isApiKeyWanted, isPossibleKey, onApiKeyChange, setApiKey } from "../api/key";

/** Servers beyond loopback ask for an API key; it stays in this tab. */
export function ApiKeyDialog() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const isWanted = useSyncExternalStore(onApiKeyChange, isApiKeyWanted);
  const isChanged = useSyncExternalStore(onApiKeyChange, isApiKeyChanged);
  const [typed, setTyped] = useState("");
  const isImpossible = typed.trim() !== "" && !isPossibleKey(typed.trim());
  const isRefused = isWanted && apiKey() !== "";

  function save(event: SyntheticEvent) {
    event.preventDefault();
    if (isImpossible) return;
    setApiKey(typed.trim());
    setTyped("");
    void queries.resetQueries();
  }

  return (
    <Modal opened={isWanted || isChanged} onClose={() => changeApiKey(false)} withCloseButton={!isWanted} closeButtonProps={{ "aria-label": t("close") }} title={t(isWanted ? "apiKey.title" : "apiKey.change")}>
      <form onSubmit={save}>
        <Stack>
          <Text size="sm">
            <Trans text={t("apiKey.why")} components={{ code: (words) => <Code>{words}</Code> }} />
          </Text>
          <PasswordInput
            label={t("apiKey.label")}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            error={isImpossible ? t("apiKey.impossible") : isRefused ? t("apiKey.refused") : undefined}
            autoComplete="off"
            data-autofocus
            required
          />
          <Button type="submit" disabled={!typed.trim() || isImpossible}>
            {t("apiKey.use")}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
