import { Button } from "@mantine/core";
import { IconMapSearch } from "@tabler/icons-react";
import { useTranslation } from "../i18n";
import { Link, useLocation } from "react-router";

import { EmptyState } from "../components/EmptyState";

export function NoSuchPage() {
  const { t } = useTranslation();
  const { pathname } = useLocation();
  return (
    <EmptyState
      icon={IconMapSearch}
      order={1}
      title={t("noSuchPage.title")}
      text={t("noSuchPage.text", { path: pathname })}
      action={
        <Button component={Link} to="/studies" variant="default">
          {t("nav.studies")}
        </Button>
      }
    />
  );
}
