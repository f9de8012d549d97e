// Light or dark: as the system says, until someone presses the button.
import { h } from "./dom";

const key = "passing-theme";
type Theme = "light" | "dark";

// Storage may be refused to a page from a file.
function remembered(): Theme | null {
  try {
    const theme = localStorage.getItem(key);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null;
  }
}

function remember(theme: Theme): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // then it holds until the page is closed
  }
}

export function themeButton(): HTMLButtonElement {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = h("button", { type: "button", class: "theme", id: "theme" });
  const current = (): Theme => remembered() ?? (system.matches ? "dark" : "light");
  const show = (theme: Theme): void => {
    document.documentElement.dataset.theme = theme;
    const other = theme === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "☾ Dark" : "☀ Light";
    button.setAttribute("aria-label", `Switch to the ${other} theme`);
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    remember(next);
    show(next);
  });
  system.addEventListener("change", () => show(current()));
  show(current());
  return button;
}
