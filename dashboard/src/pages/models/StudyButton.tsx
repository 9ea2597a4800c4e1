import { Button } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import { storeModel, type CustomModel } from "../../components/customModel";

/** To the form of a new study with this model filled in: a preset by its name, another through the tab's own storage. */
export function StudyButton({ preset, custom }: { preset?: string; custom?: CustomModel }) {
  const { t } = useTranslation("models");
  return (
    <Button
      component={Link}
      to={preset ? `/studies/new?model=${encodeURIComponent(preset)}` : "/studies/new?source=config"}
      onClick={() => custom && storeModel(custom)}
      leftSection={<IconPlayerPlay size={16} />}
    >
      {t("use")}
    </Button>
  );
}
