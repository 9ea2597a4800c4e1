import { Button, Group, List, Modal, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "../../i18n";

import { answered, api } from "../../api/client";
import { ApiError } from "../../api/problem";
import { FINISHED, type ListedStudy } from "../../api/queries";
import { nameOf } from "../../components/labels/labels";
import { ErrorState } from "../../components/ErrorState";
import { count } from "../../units/format";

const SHOWN = 6;
const POLL_MS = 300;
const PATIENCE_MS = 20_000;

/** Cancels a study that runs, waits until its worker has let go of it, and deletes it. */
async function remove(study: ListedStudy): Promise<void> {
  const params = { path: { study_id: study.id } };
  try {
    let { state } = await answered(api.GET("/v1/studies/{study_id}", { params }));
    if (!FINISHED.includes(state)) ({ state } = await answered(api.POST("/v1/studies/{study_id}:cancel", { params })));
    for (const endMs = performance.now() + PATIENCE_MS; !FINISHED.includes(state) && performance.now() < endMs; ) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      ({ state } = await answered(api.GET("/v1/studies/{study_id}", { params })));
    }
    await answered(api.DELETE("/v1/studies/{study_id}", { params }));
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 404)) throw error; // gone already
  }
}

interface Props {
  studies: readonly ListedStudy[];
  onClose: () => void;
  onDeleted: (ids: readonly string[]) => void;
}

export function DeleteDialog({ studies, onClose, onDeleted }: Props) {
  const { t } = useTranslation("studies");
  const queries = useQueryClient();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const numRunning = studies.filter((study) => !FINISHED.includes(study.state)).length;

  async function removeAll() {
    setBusy(true);
    setError(null);
    const removed: string[] = [];
    try {
      for (const study of studies) {
        await remove(study);
        removed.push(study.id);
      }
      onClose();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
      onDeleted(removed);
      await queries.invalidateQueries({ queryKey: ["studies"] });
    }
  }

  return (
    <Modal
      opened={studies.length > 0}
      onClose={onClose}
      title={t("delete.title", { count: studies.length })}
      closeButtonProps={{ "aria-label": t("common:close") }}
    >
      <Stack>
        <List size="sm">
          {studies.slice(0, SHOWN).map((study) => (
            <List.Item key={study.id} style={{ overflowWrap: "anywhere" }}>
              {t("delete.item", { model: nameOf(study), hardware: study.hardware, count: study.num_devices, devices: count(study.num_devices) })}
            </List.Item>
          ))}
          {studies.length > SHOWN && <List.Item>{t("delete.more", { count: studies.length - SHOWN })}</List.Item>}
        </List>
        <Text size="sm">{t("delete.warning")}</Text>
        {numRunning > 0 && <Text size="sm">{t("delete.running", { count: numRunning })}</Text>}
        {error !== null && <ErrorState error={error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} disabled={isBusy} data-autofocus>
            {t("common:cancel")}
          </Button>
          <Button color="red.9" onClick={() => void removeAll()} loading={isBusy}>
            {t("action.delete")}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
