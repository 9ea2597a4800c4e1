import { ActionIcon, AppShell, Burger, Group, Menu, NavLink, Text, Tooltip, UnstyledButton, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconApi,
  IconArrowsLeftRight,
  IconBook,
  IconBox,
  IconChartDots,
  IconCheck,
  IconChecklist,
  IconCpu,
  IconDeviceDesktop,
  IconFileCode,
  IconGridDots,
  IconKey,
  IconKeyboard,
  IconLanguage,
  IconMoon,
  IconPlus,
  IconRepeat,
  IconStack2,
  IconSun,
  IconTargetArrow,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useSyncExternalStore } from "react";
import { useTranslation } from "../i18n";
import { Link, Outlet, ScrollRestoration, useLocation, useNavigation } from "react-router";

import { apiKey, changeApiKey, isApiKeyChanged, isApiKeyWanted, onApiKeyChange } from "../api/key";
import { healthQuery } from "../api/queries";
import { LANGUAGES, setLanguage, type Language } from "../i18n";
import { PAGES, useShortcuts } from "./shortcuts";
import classes from "./Shell.module.css";

// Seldom seen: no page waits for them.
const ApiKeyDialog = lazy(async () => ({ default: (await import("./ApiKeyDialog")).ApiKeyDialog }));
const CurrencyDialog = lazy(async () => ({ default: (await import("./CurrencyDialog")).CurrencyDialog }));
const KeyboardHelp = lazy(async () => ({ default: (await import("./KeyboardHelp")).KeyboardHelp }));

const ICONS = { studies: IconStack2, sweep: IconChartDots, rl: IconRepeat, scripts: IconFileCode, experts: IconGridDots, compare: IconArrowsLeftRight, checks: IconChecklist, accuracy: IconTargetArrow, hardware: IconCpu, models: IconBox };

export function Shell() {
  const { t } = useTranslation();
  const [isOpen, { toggle, close }] = useDisclosure();
  const [isHelpOpen, help] = useDisclosure();
  const { pathname } = useLocation();
  const navigation = useNavigation();
  const isKeyWanted = useSyncExternalStore(onApiKeyChange, () => isApiKeyWanted() || isApiKeyChanged());
  const hasKey = useSyncExternalStore(onApiKeyChange, apiKey) !== "";
  useShortcuts(help.toggle);
  useEffect(close, [pathname, close]);

  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      padding={{ base: "sm", sm: "lg" }}
    >
      <a href="#main" className={`visually-hidden ${classes.skip}`}>
        {t("skipToContent")}
      </a>
      <AppShell.Header className={classes.header}>
        <Group gap="xs" wrap="nowrap">
          <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t("menu")} />
          <Link to="/studies" className={classes.brand}>
            <img src="/favicon.svg" width={24} height={24} alt="" />
            <span>meshplan</span>
          </Link>
        </Group>
        <Group gap={4} wrap="nowrap">
          {hasKey && (
            <Tooltip label={t("apiKey.change")}>
              <ActionIcon variant="subtle" color="gray" size="lg" onClick={() => changeApiKey(true)} aria-label={t("apiKey.change")}>
                <IconKey size={18} stroke={1.6} />
              </ActionIcon>
            </Tooltip>
          )}
          <LanguageMenu />
          <SchemeMenu />
          <Tooltip label={`${t("keyboard.title")} (?)`}>
            <ActionIcon variant="subtle" color="gray" size="lg" onClick={help.open} aria-label={t("keyboard.title")} visibleFrom="sm">
              <IconKeyboard size={18} stroke={1.6} />
            </ActionIcon>
          </Tooltip>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className={classes.navbar} aria-label={t("menu")}>
        <NavLink
          component={Link}
          to="/studies/new"
          label={t("nav.newStudy")}
          leftSection={<IconPlus size={17} />}
          active={pathname === "/studies/new"}
          variant="filled"
          className={classes.create}
        />
        {PAGES.map(({ page, key }) => {
          const Icon = ICONS[page];
          return (
            <NavLink
              key={page}
              component={Link}
              to={`/${page}`}
              label={t(`nav.${page}`)}
              leftSection={<Icon size={17} stroke={1.6} />}
              active={pathname.startsWith(`/${page}`) && pathname !== "/studies/new"}
              aria-current={pathname === `/${page}` ? "page" : undefined}
              aria-keyshortcuts={`g ${key}`}
              className={classes.link}
            />
          );
        })}
        <Foot />
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1} className={classes.main} aria-busy={navigation.state !== "idle"}>
        <Outlet />
      </AppShell.Main>
      {navigation.state !== "idle" && <div className={classes.progress} role="presentation" />}
      <Suspense>
        {isHelpOpen && <KeyboardHelp opened onClose={help.close} />}
        {isKeyWanted && <ApiKeyDialog />}
      </Suspense>
      <ScrollRestoration getKey={(location) => location.pathname} />
    </AppShell>
  );
}

function Foot() {
  const { t, i18n } = useTranslation();
  const { data } = useQuery(healthQuery());
  return (
    <div className={classes.foot}>
      <UnstyledButton component="a" href={i18n.language === "zh" ? "/docs/zh/index.html" : "/docs"} className={classes.docs}>
        <IconBook size={16} stroke={1.6} />
        <span>{t("nav.documentation")}</span>
      </UnstyledButton>
      <UnstyledButton component="a" href="/docs/api" className={classes.docs}>
        <IconApi size={16} stroke={1.6} />
        <span>{t("nav.api")}</span>
      </UnstyledButton>
      <Text size="xs" c="dimmed">
        {data ? `meshplan ${data.version}` : " "}
      </Text>
    </div>
  );
}

function LanguageMenu() {
  const { t, i18n } = useTranslation();
  const [isCurrencyOpen, dialog] = useDisclosure();
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t("language")}>
            <IconLanguage size={18} stroke={1.6} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {(Object.keys(LANGUAGES) as Language[]).map((language) => (
            <Menu.Item
              key={language}
              lang={language}
              onClick={() => void setLanguage(language)}
              rightSection={i18n.language === language ? <IconCheck size={14} /> : null}
            >
              {LANGUAGES[language]}
            </Menu.Item>
          ))}
          <Menu.Divider />
          <Menu.Item onClick={dialog.open}>{t("currency.title")}</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Suspense>{isCurrencyOpen && <CurrencyDialog onClose={dialog.close} />}</Suspense>
    </>
  );
}

const SCHEMES = { light: IconSun, dark: IconMoon, auto: IconDeviceDesktop } as const;

function SchemeMenu() {
  const { t } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const Current = SCHEMES[colorScheme];
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label={t("theme.title")}>
          <Current size={18} stroke={1.6} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {(Object.keys(SCHEMES) as (keyof typeof SCHEMES)[]).map((scheme) => {
          const Icon = SCHEMES[scheme];
          return (
            <Menu.Item
              key={scheme}
              onClick={() => setColorScheme(scheme)}
              leftSection={<Icon size={15} stroke={1.6} />}
              rightSection={colorScheme === scheme ? <IconCheck size={14} /> : null}
            >
              {t(`theme.${scheme}`)}
            </Menu.Item>
          );
        })}
      </Menu.Dropdown>
    </Menu>
  );
}
