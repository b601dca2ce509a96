"""The words for units in German, French, Spanish, Portuguese, Italian, Russian, Hindi and Arabic."""

FOREIGN_UNITS = {
    "degree": "grados degrés gradi graus градус градуса градусов",
    "percent": "prozent процент процента процентов प्रतिशत",
    "dollar": "dólar dólares dollari доллар доллара долларов",
    "cent": "centavo centavos centesimi цент цента центов",
    "euro": "евро",
    "meter": "metern metro metros mètre mètres metri метр метра метров м मीटर متر أمتار مترا",
    "centimeter": "centimetern centímetro centímetros centimètre centimètres centimetri сантиметр сантиметра"
    " сантиметров см सेमी सेंटीमीटर سم سنتيمتر",
    "millimeter": "millimetern milímetro milímetros millimètre millimètres millimetri миллиметр миллиметра миллиметров"
    " мм",
    "kilometer": "kilometern kilómetro kilómetros quilómetro quilómetros quilômetro quilômetros kilomètre kilomètres"
    " chilometro chilometri километр километра километров км किमी किलोमीटर كم كيلومتر كيلومترا",
    "second": "sekunde sekunden seconde secondes segundo segundos secondi секунда секунды секунд с сек सेकंड"
    " ثانية ثوان ثواني",
    "minute": "minuten minuto minutos minuti минута минуты минут мин मिनट دقيقة دقائق",
    "hour": "stunde stunden heure heures hora horas час часа часов ч घंटा घंटे ساعة ساعات",
    "day": "tage tagen jour jours día días dia dias giorno giorni день дня дней दिन يوم أيام يوما",
    "week": "woche wochen semaine semaines semana semanas settimana settimane неделя недели недель",
    "month": "monat monate monaten mois meses mês mesi месяц месяца месяцев",
    "year": "jahr jahre jahren ans année années año años ano anos anni год года лет वर्ष साल سنة سنوات",
    "gram": "gramm gramme grammes gramo gramos grama gramas grammi грамм грамма граммов г ग्राम غرام جرام غراما",
    "kilogram": "kilogramm kilogramme kilogrammes kilogramo kilogramos quilograma quilogramas chilogrammi kilos quilos"
    " килограмм килограмма килограммов кг किग्रा किलोग्राम كجم كيلوغرام",
    "mile": "meile meilen milla millas milha milhas miglia миля мили миль",
    "ton": "tonnen tonelada toneladas tonnellate тонна тонны тонн",
    "liter": "litern litro litros litri литр литра литров л लीटर لتر لترا",
}
"""The name of a unit to its words, in lower case."""
