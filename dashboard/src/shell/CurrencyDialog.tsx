import { Button, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { useState, type SyntheticEvent } from "react";

import { useTranslation } from "../i18n";
import { CODES, currency, setCurrency } from "../units/currency";

/** In which currency amounts are shown, and at which rate. */
export function CurrencyDialog({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const [code, setCode] = useState(currency().code);
  const [rate, setRate] = useState(currency().code === "USD" ? "" : String(currency().perUsd));
  const perUsd = code === "USD" ? 1 : Number(rate);
  const isRate = Number.isFinite(perUsd) && perUsd > 0;

  function save(event: SyntheticEvent) {
    event.preventDefault();
    if (!isRate) return;
    setCurrency({ code, perUsd });
    onClose();
  }

  return (
    <Modal opened onClose={onClose} closeButtonProps={{ "aria-label": t("close") }} title={t("currency.title")}>
      <form onSubmit={save} noValidate>
        <Stack>
          <Text size="sm">{t("currency.why")}</Text>
          <Select label={t("currency.title")} data={[...CODES]} value={code} onChange={(chosen) => setCode(chosen ?? "USD")} allowDeselect={false} />
          {code !== "USD" && (
            <TextInput
              label={t("currency.rate", { code })}
              value={rate}
              onChange={(event) => setRate(event.currentTarget.value)}
              error={rate !== "" && !isRate ? t("currency.wrong") : undefined}
              inputMode="decimal"
              autoComplete="off"
              data-autofocus
            />
          )}
          <Button type="submit" disabled={!isRate}>
            {t("currency.use")}
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
